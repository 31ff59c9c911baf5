package consulacl

import (
	"context"

	"berth/client/consul"
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
// of the connection's token. The error is that of consul.Conn.Post.
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
