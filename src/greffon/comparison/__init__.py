"""Did pretraining pay off? Arms, baselines, statistics, verdict, report."""
