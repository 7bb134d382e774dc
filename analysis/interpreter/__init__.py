"""Parts of the concrete interpreter; ``prelaunch.analysis.interpret`` is the way in."""
