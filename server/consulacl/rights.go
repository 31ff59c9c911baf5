package consulacl

import (
	"context"
	"net/http"

	"berth/consul"
	"berth/structs"
	"berth/structs/nodecalls"
)

// right is a question to Consul, and its answer: whether a token may access a resource.
type right struct {
	Resource string
	Access   string
	Segment  string `json:",omitempty"` // the name of the resource
	Allow    bool   `json:",omitempty"`
}

// maxRights is the most that Consul answers at once.
const maxRights = 64

// allowed returns the rights with the answers of Consul, which evaluates the policies, roles and identities
// of the connection's token. The error is from consul.Conn.Post.
func allowed(ctx context.Context, conn *consul.Conn, rights []right) ([]right, error) {
	var answers []right
	for len(rights) > 0 {
		n := min(len(rights), maxRights)
		var some []right
		err := conn.Post(ctx, "/v1/internal/acl/authorize", rights[:n], &some)
		if err != nil {
			return nil, err
		}
		answers = append(answers, some...)
		rights = rights[n:]
	}
	return answers, nil
}

// CheckSubmitter returns an error if the submitter of a job may not register services with these names. It is
// nil if the configuration does not ask for that. The error is denied, unavailable, or a failed precondition
// if the ACLs of Consul are off.
func (c *Client) CheckSubmitter(ctx context.Context, token structs.Secret, services []string) error {
	const doing = "checking the Consul token of the submitter"
	if c.config.AllowUnauthenticated || len(services) == 0 {
		return nil
	}

	if token == "" {
		return structs.Deniedf("the job registers the service %q in Consul: it needs a token with "+
			"service:write for it (-consul-token or CONSUL_HTTP_TOKEN)", services[0])
	}

	config := c.config
	config.Token = token
	config.TokenFile = "" // auth stays: it is for what is before Consul

	// The connection has the submitter's token, and is not used for anything else.
	conn, err := config.Open()
	if err != nil {
		return err
	}
	defer conn.Close()

	var rights []right
	for _, name := range services {
		// A node could replace it by the name of any service.
		if nodecalls.HasReference(name) {
			return structs.Deniedf("service %q: its name has placeholders that the servers cannot replace, "+
				"so they cannot check the right to register it; write the name out", name)
		}

		rights = append(rights, right{Resource: "service", Access: "write", Segment: name})
	}

	answers, err := allowed(ctx, conn, rights)
	switch {
	case consul.IsRejected(err, http.StatusForbidden):
		return structs.Deniedf("%s: Consul does not know the token", doing)
	case err != nil:
		return consul.Explain(doing, err)
	case len(answers) != len(rights):
		return structs.Unavailablef("%s: Consul answered %d of %d questions", doing, len(answers),
			len(rights))
	}

	for i, answer := range answers {
		// The answers have the order of the questions. The name proves it.
		if !answer.Allow || answer.Segment != services[i] {
			return structs.Deniedf("service %q: the Consul token of the submitter may not write it; "+
				"its policies need service %q { policy = \"write\" }", services[i], services[i])
		}
	}

	return nil
}
