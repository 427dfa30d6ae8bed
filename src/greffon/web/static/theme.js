// Light and dark colours: as the system says, or as the button was left.

export function theme() {
  const button = document.querySelector(".theme");
  const next = { system: "light", light: "dark", dark: "system" };
  const wear = (name) => {
    document.documentElement.style.colorScheme = name === "system" ? "" : name;
    button.textContent = { system: "Auto", light: "Light", dark: "Dark" }[name];
    button.setAttribute("aria-label", `Colours: ${name}. Change to ${next[name]}`);
    localStorage.setItem("colours", name);
  };
  button.addEventListener("click", () => wear(next[localStorage.getItem("colours") ?? "system"]));
  const kept = localStorage.getItem("colours");
  wear(kept in next ? kept : "system");
}
