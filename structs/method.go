package structs

// Method names a remote procedure together with the types of its request and answer, so that caller and
// endpoint cannot disagree. The name is "Noun.Verb". Each method is declared above its request, or above its
// answer if the request has no parameters.
type Method[Req, Resp any] struct {
	Name string
	// Write marks a method that the leader must serve, never a stale follower.
	Write bool
}

// Read returns a method that a follower may serve too. Tests read the calls in the source, so that its name
// is a literal.
func Read[Req, Resp any](name string) Method[Req, Resp] {
	return Method[Req, Resp]{Name: name}
}

// Write returns a method that the leader serves. Its name is a literal, as of Read.
func Write[Req, Resp any](name string) Method[Req, Resp] {
	return Method[Req, Resp]{Name: name, Write: true}
}

// QueryRequest is a read without parameters beside its options.
type QueryRequest struct{ QueryOptions }

// WriteRequest is a write without parameters beside its options.
type WriteRequest struct{ WriteOptions }
