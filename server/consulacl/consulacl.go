// Package consulacl does the work of the servers in Consul: they make and revoke the tokens of tasks that
// take part in the service mesh, write the configuration entries of gateways, and ask for the rights of those
// who submit jobs. It uses the agent's own `consul {}` block, whose token needs acl:write, and mesh:write for
// gateways.
package consulacl

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/endpoints/core"
	"berth/internal/loadshed"
	"berth/structs"
)

// The bounds of the calls of one server. Each call that changes a token is a log entry of Consul.
const (
	maxParallel = 16
	perSecond   = 500
)

// Client calls Consul. The methods may be called at the same time.
type Client struct {
	config  consul.Config
	conn    *consul.Conn
	permits loadshed.Permits
	pace    pace
}

// New makes the client of a server with a valid configuration. It does not call Consul. The error is invalid.
func New(c consul.Config) (*Client, error) {
	conn, err := c.Open()
	if err != nil {
		return nil, err
	}
	return &Client{
		config:  c,
		conn:    conn,
		permits: make(loadshed.Permits, maxParallel),
		pace:    pace{gap: time.Second / perSecond},
	}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.conn.Close() }

// enter waits for the turn of a call.
func (c *Client) enter(ctx context.Context, doing string) error {
	if !c.permits.Enter(ctx, c.config.Timeout) {
		return structs.Unavailablef("%s: %d calls of Consul are in flight, the most of a server",
			doing, maxParallel)
	}

	// The permit is taken first, so that a call which waits for it uses no turn of the pace.
	if err := c.pace.wait(ctx); err != nil {
		c.permits.Leave()
		return structs.Unavailablef("%s: %w", doing, err)
	}
	return nil
}

// CreateToken makes a token with the rights of a service and returns its secret. After an error Consul may
// have made the token, or may make it later.
func (c *Client) CreateToken(ctx context.Context, t core.ServiceToken) (structs.Secret, error) {
	const doing = "making a token in Consul"
	if err := c.enter(ctx, doing); err != nil {
		return "", err
	}
	defer c.permits.Leave()

	token := &api.ACLToken{
		AccessorID:        t.AccessorID,
		Description:       t.Description,
		ServiceIdentities: []*api.ACLServiceIdentity{{ServiceName: t.Service}},
		// The token is for this datacenter. A global one would be written in the primary, which may be out of
		// reach.
		Local: true,
	}

	made, _, err := c.conn.ACL().TokenCreate(token, (&api.WriteOptions{}).WithContext(ctx))
	switch {
	case err != nil:
		return "", consul.Explain(doing, err)
	// The accessor was stored before the call, and is what revokes the token. Another one would stay for
	// ever.
	case made.AccessorID != t.AccessorID || made.SecretID == "":
		return "", structs.Internalf("%s: Consul made another token than the ordered one", doing)
	}

	return structs.Secret(made.SecretID), nil
}

// RevokeToken deletes a token. One that is gone is no error.
func (c *Client) RevokeToken(ctx context.Context, accessorID string) error {
	const doing = "revoking a token in Consul"
	if err := c.enter(ctx, doing); err != nil {
		return err
	}
	defer c.permits.Leave()
	_, err := c.conn.ACL().TokenDelete(accessorID, (&api.WriteOptions{}).WithContext(ctx))
	if consul.IsRejected(err, http.StatusNotFound) {
		// Consul gives the same answer if it does not know the token of the agent.
		_, err = allowed(ctx, c.conn, []right{{Resource: "acl", Access: "write"}})
	}
	if err != nil {
		return consul.Explain(doing, err)
	}
	return nil
}
