package api

// StatusError is an error with another HTTP status than that of its kind.
type StatusError struct {
	Err    error
	Status int
	Unread bool // the body of the request is not read to its end, so no request follows on the connection
}

// StatusError is the text of the error alone.
func (e StatusError) Error() string { return e.Err.Error() }

// Unwrap returns the error, which has a kind.
func (e StatusError) Unwrap() error { return e.Err }
