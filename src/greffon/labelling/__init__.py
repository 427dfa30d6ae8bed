"""Labelling texts: from a heap without labels to a labelled table, and how far it is enough.

log        the marks on the disk, each synced before the next text is shown
marks      what they amount to
heap       the texts, their vectors and clusters
answers    what a label is: one class, or several labels
strategy   which text is asked next
desk       all of it in memory: the one code that page, Python and simulation use
progress   accuracy on the texts kept aside, curve, forecast, labels to look at again
session    a desk on the disk, with its background thread
label      begin a session, or go on with one
simulate   chosen against random labels, with answers from a file
"""
