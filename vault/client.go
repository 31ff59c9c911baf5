// Package vault connects a node with Vault or OpenBao, by the public HTTP API: a task logs in with its
// identity, and reads secrets with the token that it gets. A Client only carries calls; client/login keeps
// tokens, and a Source answers the questions of templates.
//
// Answers and times are bounded. No redirection is followed, because a token is for the address of the
// configuration alone. No error shows a token, a JWT or a secret.
package vault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/internal/netfault"
	"berth/structs"
)

// The bounds of a call, in bytes.
const (
	maxAnswer    = 4 << 20
	maxHeader    = 64 << 10
	maxComplaint = 1 << 10
	// MaxToken bounds a token of Vault and a JWT.
	MaxToken = 16 << 10
)

// Client carries calls. It is safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
}

// New makes a client with a valid configuration. It calls nothing. The error is invalid for files that cannot
// be read.
func New(c Config) (*Client, error) {
	config, err := c.tls()
	if err != nil {
		return nil, err
	}

	return &Client{
		cfg: c,
		http: &http.Client{
			Transport: &http.Transport{
				TLSClientConfig:        config,
				MaxResponseHeaderBytes: maxHeader,
				IdleConnTimeout:        time.Minute,
				ForceAttemptHTTP2:      true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Access names the token of a call and the namespace in which it is made.
type Access struct {
	Token     structs.Secret
	Namespace string // "" for that of the configuration
}

// Token is a token of Vault.
type Token struct {
	Secret    structs.Secret
	TTL       time.Duration // 0: it has no end
	Renewable bool
}

// Auth is the part of an answer about a token.
type Auth struct {
	ClientToken   string   `json:"client_token"`
	Accessor      string   `json:"accessor"`
	Policies      []string `json:"policies"`
	LeaseDuration int64    `json:"lease_duration"` // seconds
	Renewable     bool     `json:"renewable"`
}

func (a *Auth) token() (*Token, error) {
	if a == nil || a.ClientToken == "" || len(a.ClientToken) > MaxToken || !isToken(a.ClientToken) {
		return nil, structs.Errorf(structs.KindInternal, "the answer of Vault has no token")
	}
	return &Token{
		Secret:    structs.Secret(a.ClientToken),
		TTL:       seconds(a.LeaseDuration),
		Renewable: a.Renewable,
	}, nil
}

// isToken reports whether a text can stand in a header.
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// maxSeconds is the longest time that an answer may name: longer ones do not fit into a Duration.
const maxSeconds = 100 * 365 * 24 * 3600

func seconds(n int64) time.Duration { return time.Duration(min(max(n, 0), maxSeconds)) * time.Second }

// Login exchanges the JWT of a workload for a token. An empty role leaves the choice to the auth method.
func (c *Client) Login(ctx context.Context, namespace, role string, jwt structs.Secret) (*Token, error) {
	body := map[string]any{"jwt": string(jwt)}
	if role != "" {
		body["role"] = role
	}

	mount := strings.Trim(c.cfg.JWTAuthBackendPath, "/")
	r := request{
		method: http.MethodPost,
		path:   "auth/" + mount + "/login",
		access: Access{Namespace: namespace},
		body:   body,
		hidden: string(jwt),
	}
	answer, err := c.call(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("logging in at the auth method %s of Vault: %w", mount, err)
	}

	return answer.Auth.token()
}

// RenewSelf renews a token.
func (c *Client) RenewSelf(ctx context.Context, a Access) (*Token, error) {
	answer, err := c.call(ctx, request{
		method: http.MethodPost,
		path:   "auth/token/renew-self",
		access: a,
		body:   map[string]any{},
	})
	if err != nil {
		return nil, fmt.Errorf("renewing a token of Vault: %w", err)
	}
	return answer.Auth.token()
}

// LookupSelf returns what Vault knows of a token.
func (c *Client) LookupSelf(ctx context.Context, a Access) (*Token, error) {
	answer, err := c.call(ctx, request{method: http.MethodGet, path: "auth/token/lookup-self", access: a})
	if err != nil {
		return nil, fmt.Errorf("looking up a token of Vault: %w", err)
	}

	ttl, _ := answer.Data["ttl"].(json.Number)
	n, _ := ttl.Int64()
	renewable, _ := answer.Data["renewable"].(bool)
	return &Token{Secret: a.Token, TTL: seconds(n), Renewable: renewable}, nil
}

// RevokeSelf ends a token and all leases that it has.
func (c *Client) RevokeSelf(ctx context.Context, a Access) error {
	_, err := c.call(ctx, request{
		method: http.MethodPost,
		path:   "auth/token/revoke-self",
		access: a,
		body:   map[string]any{},
	})
	// A token that Vault does not know any more is revoked.
	if err != nil && !structs.IsKind(err, structs.KindDenied) {
		return fmt.Errorf("revoking a token of Vault: %w", err)
	}
	return nil
}

// RenewLease renews the lease of a secret, and returns the time that it lasts now.
func (c *Client) RenewLease(
	ctx context.Context, a Access, lease string, wanted time.Duration,
) (*Secret, error) {
	return c.call(ctx, request{
		method: http.MethodPut,
		path:   "sys/leases/renew",
		access: a,
		body:   map[string]any{"lease_id": lease, "increment": int64(wanted / time.Second)},
	})
}

// Secret is an answer of Vault.
type Secret struct {
	LeaseID       string         `json:"lease_id"`
	LeaseDuration int64          `json:"lease_duration"` // seconds
	Renewable     bool           `json:"renewable"`
	Data          map[string]any `json:"data"`
	Auth          *Auth          `json:"auth"`
	Warnings      []string       `json:"warnings"`
}

// request is one call.
type request struct {
	method string
	path   string // below /v1/
	query  url.Values
	access Access
	body   map[string]any // nil: none
	hidden string         // a secret of the body that no error shows
}

// Request is a call of a path that has no secret of a task.
type Request struct {
	Access Access
	Method string
	Path   string         // below /v1/
	Body   map[string]any // nil: none
}

// Call sends a request.
func (c *Client) Call(ctx context.Context, r Request) (*Secret, error) {
	return c.call(ctx, request{method: r.Method, path: r.Path, access: r.Access, body: r.Body})
}

// call sends one request.
func (c *Client) call(ctx context.Context, r request) (*Secret, error) {
	late := fmt.Errorf("no answer came within %s", c.cfg.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.Timeout, late)
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil {
		return nil, err
	}

	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			// The cause is the timeout of this call, or the end of the caller.
			return nil, structs.Unavailablef("%w", context.Cause(ctx))
		}

		if of, ok := errors.AsType[*url.Error](err); ok {
			err = of.Err // without the address, which has the path of the secret
		}

		return nil, structs.Unavailablef("%s: %w", c.cfg.Address, netfault.Plain(err))
	}
	defer func() { _ = resp.Body.Close() }()
	return readAnswer(resp, string(r.access.Token), r.hidden)
}

func (c *Client) request(ctx context.Context, r request) (*http.Request, error) {
	address, err := url.Parse(c.cfg.Address)
	if err != nil {
		return nil, structs.Invalidf("vault.address: %w", err)
	}

	// The path is escaped as a whole, so no part of it becomes a query or a part of another path.
	address.Path = "/v1/" + r.path
	address.RawQuery = r.query.Encode()

	var body io.Reader
	if r.body != nil {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}

	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), body)
	if err != nil {
		return nil, err
	}

	req.Header.Set("X-Vault-Request", "true") // listeners may demand it
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}

	if r.access.Token != "" {
		req.Header.Set("X-Vault-Token", string(r.access.Token))
	}

	namespace := strings.Trim(r.access.Namespace, "/")
	if namespace == "" {
		namespace = strings.Trim(c.cfg.Namespace, "/")
	}
	if namespace != "" {
		req.Header.Set("X-Vault-Namespace", namespace)
	}

	return req, nil
}

// readAnswer reads an answer. Its errors show no secret of the request.
func readAnswer(resp *http.Response, secrets ...string) (*Secret, error) {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, structs.Unavailablef("reading the answer of Vault: %w", netfault.Plain(err))
	case len(text) > maxAnswer:
		return nil, structs.Preconditionf("the answer of Vault has more than %d bytes", maxAnswer)
	case resp.StatusCode == http.StatusNoContent:
		return &Secret{}, nil
	case resp.StatusCode != http.StatusOK:
		return nil, rejection(resp, text, secrets)
	}

	var s Secret
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a number keeps the form that Vault gives it

	// The error of the decoder may show a part of a secret.
	if d.Decode(&s) != nil {
		return nil, structs.Errorf(structs.KindInternal, "the answer is not one of Vault's API")
	}

	return &s, nil
}

// rejection returns the error of an answer, with the begin of its complaints.
func rejection(resp *http.Response, text []byte, secrets []string) error {
	var complaint struct {
		Errors   []string `json:"errors"`
		Warnings []string `json:"warnings"`
	}

	_ = json.Unmarshal(text, &complaint) // a proxy may answer with another text
	said := strings.Join(append(complaint.Errors, complaint.Warnings...), "; ")
	for _, s := range secrets {
		if s != "" {
			said = strings.ReplaceAll(said, s, structs.Redacted)
		}
	}

	said = structs.Cut(strings.Join(strings.Fields(said), " "), maxComplaint)
	kind, remedy := meaning(resp.StatusCode)
	if said != "" {
		said = ": " + said
	}
	return structs.Errorf(kind, "Vault answers %d%s%s", resp.StatusCode, remedy, said)
}

// meaning returns the kind of a status, and its explanation for an operator.
func meaning(status int) (structs.Kind, string) {
	switch {
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return structs.KindDenied, " (the token has ended, or its policies do not allow it)"
	case status == http.StatusNotFound:
		return structs.KindNotFound, " (nothing is there)"
	case status == http.StatusBadRequest || status == http.StatusMethodNotAllowed:
		return structs.KindInvalid, ""
	case status == http.StatusServiceUnavailable:
		return structs.KindUnavailable, " (it is sealed, or not ready)"
	case status >= 300 && status < 400:
		return structs.KindPrecondition, " (it names another address, which has to be in vault.address)"
	}
	return structs.KindUnavailable, ""
}
