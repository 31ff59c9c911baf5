package setup

import (
	"context"
	"net/http"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/structs"
)

// maxAnswer bounds an answer of Consul, in bytes.
const maxAnswer = 64 << 20

// Client calls Consul with the token of an operator.
type Client struct {
	acl     *api.ACL
	address string
}

// Open makes a client from the variables CONSUL_HTTP_* that the programs of Consul read. An address that is
// not empty precedes the one of CONSUL_HTTP_ADDR. It does not call Consul. The error is invalid.
func Open(address string) (*Client, error) {
	conf := api.DefaultNonPooledConfig()
	if address != "" {
		conf.Address = address
	}
	shown := conf.Address // NewClient cuts the scheme off
	client, err := api.NewClient(conf)
	if err != nil {
		return nil, structs.Invalidf("the address or the TLS files of Consul (-consul-address, CONSUL_*): %w", err)
	}
	conf.HttpClient.Transport = bounded{conf.HttpClient.Transport}
	return &Client{acl: client.ACL(), address: shown}, nil
}

// Address returns the address of Consul.
func (c *Client) Address() string { return c.address }

// bounded bounds the answers of Consul.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// explain adds the place and the remedy to an error of Consul, and gives it a kind.
func (c *Client) explain(doing string, err error) error {
	var rejected api.StatusError
	switch {
	case consul.IsRejected(err, http.StatusForbidden):
		return structs.Deniedf("%s: Consul denies it; set CONSUL_HTTP_TOKEN to a token with acl = \"write\": %w",
			doing, err)
	case consul.IsRejected(err, http.StatusUnauthorized):
		return structs.Preconditionf("%s: the ACLs of Consul are off, so there are no logins; "+
			"set acl { enabled = true } in its configuration: %w", doing, err)
	case asStatus(err, &rejected):
		return structs.Preconditionf("%s: Consul does not take it: %w", doing, err)
	}
	return structs.Unavailablef("%s: Consul at %s (-consul-address, CONSUL_HTTP_ADDR) does not answer: %w",
		doing, c.address, err)
}

// writing returns the options of a request that writes.
func writing(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{}).WithContext(ctx)
}
