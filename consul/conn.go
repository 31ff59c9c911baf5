package consul

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/hashicorp/consul/api"

	"berth/structs"
)

// Conn reaches Consul's HTTP API. A Link works for one agent; a Conn only carries calls.
type Conn struct {
	*api.Client
	http      *http.Client
	transport *http.Transport
	scheme    string
	host      string
}

// Open makes a connection with a valid configuration. It does not call Consul. The error is invalid.
func (c Config) Open() (*Conn, error) {
	client, transport, err := c.open()
	if err != nil {
		return nil, err
	}

	u, err := c.url()
	if err != nil {
		return nil, err
	}

	conn := &Conn{
		Client: client,
		// The library has no call for some paths. Requests of this client are authorized in the same way.
		http: &http.Client{
			Timeout:       c.Timeout,
			Transport:     &authorized{&c, transport, maxAnswer},
			CheckRedirect: keepAnswer,
		},
		transport: transport,
		scheme:    u.Scheme,
		host:      u.Host,
	}

	// The transport dials the socket; a request needs a host nevertheless.
	if u.Scheme == "unix" {
		conn.scheme = "http"
		conn.host = "localhost"
	}

	return conn, nil
}

// keepAnswer follows no redirect: net/http would make a write to a read, whose answer looks like a success,
// and would carry the token to another address.
func keepAnswer(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Close ends idle connections.
func (c *Conn) Close() { c.transport.CloseIdleConnections() }

// maxRejection bounds the text of a rejection, in bytes.
const maxRejection = 1 << 10

// Post calls a path that the library does not know, with JSON. A rejection is an api.StatusError.
func (c *Conn) Post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}

	url := c.scheme + "://" + c.host + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}

	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()

	if resp.StatusCode != http.StatusOK {
		// A read that fails leaves the status, which is the important part.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRejection))
		return api.StatusError{Code: resp.StatusCode, Body: string(text)}
	}

	return json.NewDecoder(resp.Body).Decode(out)
}

// Explain adds the place to an error of Consul, and gives it a kind: denied, a failed precondition if the
// ACLs of Consul are off, or unavailable.
func Explain(doing string, err error) error {
	if statusOf(err) == http.StatusUnauthorized {
		return structs.Preconditionf("%s: the ACLs of Consul are off: %w", doing, err)
	}
	return plain(doing, err)
}

// IsRejected reports whether Consul has answered with the HTTP status.
func IsRejected(err error, status int) bool {
	var rejection api.StatusError
	return errors.As(err, &rejection) && rejection.Code == status
}
