"""What applications and announcers of a simulated network do."""
