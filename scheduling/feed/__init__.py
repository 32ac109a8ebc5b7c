"""The websocket: changes of jobs and of the board, to whoever may know of them."""
