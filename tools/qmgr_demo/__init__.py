"""The main job: flights from three airports to one hub, whatever is killed meanwhile."""
