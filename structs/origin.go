package structs

// Origin says by which way a request of a person or a tool came, for the audit log. The agent that takes the
// HTTP request makes it, and the servers hand it on. It gives no rights: whoever reaches the RPC port can
// claim any.
type Origin struct {
	RequestID string `json:",omitempty"` // a UUID, also in the header X-Berth-Request-Id of the answer
	Operation string `json:",omitempty"` // the method of HTTP
	Endpoint  string `json:",omitempty"` // the path, without parameters
	Remote    string `json:",omitempty"` // the address of the HTTP client
	// Certificate is the URI of the identity in the certificate of the HTTP client.
	Certificate string `json:",omitempty"`
	Socket      bool   `json:",omitempty"` // it came over the operator socket of the agent
	Agent       string `json:",omitempty"` // its name
}
