package agent

import (
	"net/http"

	"berth/internal/opsocket"
	"berth/structs"
)

// checkSecrets returns an error unless the caller of a request may read and write the values of variables,
// and make join tokens: root over the operator socket, or the holder of a certificate, which the port has
// verified. Without TLS every program on the network of the machine could read them. An agent with -dev,
// which listens on loopback and keeps nothing, answers those too. A task may have the variables that its
// token gives, over its socket.
func (a *Agent) checkSecrets(r *http.Request) error {
	cfg := a.config()

	// The port has verified it: a certificate of a node or of another authority does not come here.
	certified := r.TLS != nil && len(r.TLS.PeerCertificates) > 0

	// -dev alone does not suffice: a file may override its address.
	dev := cfg.Dev && a.keys == nil && cfg.openAddress() == ""
	if certified || dev || opsocket.Marked(r.Context()) || readsVariables(r) {
		return nil
	}

	return &structs.Error{
		Kind: structs.KindDenied,
		Text: "values of variables, join tokens and archives of the state are for the certificate of an " +
			"operator, or for the operator socket of an agent, which root alone may open: it is unix://" +
			cfg.OperatorSocket + " on " + cfg.Name,
		Socket: cfg.OperatorSocket,
	}
}

// checkArchives returns an error unless the caller of a request may save and restore archives of the state,
// which have the secret IDs of all nodes. An agent with TLS asks as it does for secrets, also in the mode
// prefer. Without TLS every caller may: servers forward such a request to the leader, and a plain one has no
// proof that it comes from a server.
func (a *Agent) checkArchives(r *http.Request) error {
	if a.keys == nil {
		return nil
	}
	return a.checkSecrets(r)
}
