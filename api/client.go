package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"berth/internal/netfault"
	"berth/structs"
)

// DefaultAddress is the address of an agent's HTTP API without configuration.
const DefaultAddress = "http://127.0.0.1:4746"

// ClientConfig has the settings of a client.
type ClientConfig struct {
	Address   string // http://host:port or unix:///path; default: BERTH_ADDR, then DefaultAddress
	Namespace string
	Region    string
	Token     string
	// Late is called in the goroutine of the caller when the answer to a request takes longer than LateAfter. A
	// blocking read waits for a change, so its answer is never late. Late may be nil.
	Late func()
}

// Client calls one agent. An error has the kind that the agent gave it. The kind is unavailable if the agent
// cannot be reached. A Client is safe for concurrent use.
type Client struct {
	cfg  ClientConfig
	base *url.URL
	bad  error // the fault of the configuration; every call returns it
	http *http.Client
}

// NewClient returns a client. The calls of a client with an invalid address return an error.
func NewClient(cfg ClientConfig) *Client {
	cfg.Address = cmp.Or(cfg.Address, os.Getenv("BERTH_ADDR"), DefaultAddress)
	c := &Client{cfg: cfg}
	c.base, c.bad = parseAddress(cfg.Address)
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	if c.bad == nil && c.base.Scheme == "unix" {
		socket := c.base.Path
		c.base = &url.URL{Scheme: "http", Host: "localhost"}
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	c.http = &http.Client{Transport: transport}
	return c
}

func parseAddress(s string) (*url.URL, error) {
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err == nil {
		overHTTP := u.Scheme == "http" || u.Scheme == "https"
		if overHTTP && u.Host != "" || u.Scheme == "unix" {
			return u, nil
		}
	}
	return nil, structs.Invalidf("the address %q is not of the form http://host:port or unix:///path", s)
}

// Close closes idle connections.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
}

// Namespace returns the namespace of the calls.
func (c *Client) Namespace() string {
	return structs.NamespaceOr(c.cfg.Namespace)
}

// Address returns the address of the agent.
func (c *Client) Address() string {
	return c.cfg.Address
}

// request is one call of a route.
type request struct {
	route  *Route
	id     string // in place of {id} in the path
	query  url.Values
	header http.Header
	body   any // an io.Reader, or a value to send as JSON
}

// Query has the options of a read. An empty namespace or region is the client's.
type Query = structs.QueryOptions

// Meta has the index of a read and the token of its next page.
type Meta = structs.QueryMeta

func queryValues(q *Query) url.Values {
	v := url.Values{}
	if q == nil {
		return v
	}

	setGiven(v, "region", q.Region)
	setGiven(v, "namespace", q.Namespace)
	setGiven(v, "prefix", q.Prefix)
	setGiven(v, "filter", q.Filter)
	setGiven(v, "sort", q.Sort)
	setGiven(v, "next_token", q.NextToken)
	if q.MinIndex > 0 {
		v.Set("index", strconv.FormatUint(q.MinIndex, 10))
	}

	if q.MaxWait > 0 {
		v.Set("wait", q.MaxWait.String())
	}

	if q.PerPage > 0 {
		v.Set("per_page", strconv.Itoa(int(q.PerPage)))
	}

	if q.AllowStale {
		v.Set("stale", "")
	}

	if q.Reverse {
		v.Set("reverse", "true")
	}

	return v
}

// setGiven sets a parameter that has a value.
func setGiven(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// open sends a request and returns a successful answer. It repeats a read that an overloaded server rejected,
// and calls Late if the answer is late.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	send := func() (*http.Response, error) { return c.openOnce(ctx, r) }
	if r.route.method() == http.MethodGet {
		send = repeated(ctx, send)
	}
	if c.cfg.Late != nil && !r.query.Has("index") {
		return tellLate(c.cfg.Late, send)
	}
	return send()
}

func (c *Client) openOnce(ctx context.Context, r request) (*http.Response, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if resp.StatusCode/100 != 2 && resp.StatusCode != r.route.Also {
		defer closeBody(resp)
		return nil, errorOf(resp)
	}
	return resp, nil
}

// urlOf returns the URL of a request, in the namespace and region of the client if the query names no other.
func (c *Client) urlOf(r request) string {
	u := *c.base
	for s := range strings.SplitSeq(r.route.Path[1:], "/") {
		if s == "{id}" {
			s = r.id
		}

		u.Path += "/" + s
		u.RawPath += "/" + url.PathEscape(s)
	}

	query := r.query
	if query == nil {
		query = url.Values{}
	}

	setGiven(query, "namespace",
		cmp.Or(query.Get("namespace"), c.cfg.Namespace))
	setGiven(query, "region", cmp.Or(query.Get("region"), c.cfg.Region))
	u.RawQuery = query.Encode()
	return u.String()
}

func (c *Client) newRequest(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case io.Reader:
		body = b
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			return nil, structs.Internalf("encoding the request: %w", err)
		}

		body = bytes.NewReader(encoded)
	}

	method := r.route.method()
	req, err := http.NewRequestWithContext(ctx, method, c.urlOf(r), body)
	if err != nil {
		return nil, structs.Invalidf("making the request: %w", err)
	}

	maps.Copy(req.Header, r.header)
	if c.cfg.Token != "" {
		req.Header.Set("X-Berth-Token", c.cfg.Token)
	}

	return req, nil
}

// closeBody closes the body of an answer. Its error loses nothing.
func closeBody(resp *http.Response) { _ = resp.Body.Close() }

// transportError explains why the agent could not be reached or did not answer.
func (c *Client) transportError(ctx context.Context, err error) error {
	var op *net.OpError
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // drops the URL, because the text has the address already
	}

	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return structs.Timeoutf("no answer from the agent at %s in time", c.cfg.Address)
	case ctx.Err() != nil:
		return structs.Timeoutf("the call was cancelled: %w", ctx.Err())
	case errors.Is(err, http.ErrSchemeMismatch):
		return structs.Invalidf(
			"the agent at %s speaks http and not https: use http:// in -address or BERTH_ADDR",
			c.cfg.Address)
	case errors.As(err, &op) && op.Op == "dial":
		return structs.Unavailablef(
			"no agent can be reached at %s (-address, BERTH_ADDR): %w",
			c.cfg.Address, netfault.Plain(err))
	}

	return structs.Timeoutf("the agent at %s did not answer: %w%s",
		c.cfg.Address, netfault.Plain(err), c.portHint())
}

// portHint explains a lost connection to a port that, by default, does not serve HTTP.
func (c *Client) portHint() string {
	port := c.base.Port()
	if port != "4747" && port != "4748" {
		return ""
	}
	return "; port " + port + " is one of the servers' own, the HTTP API has port 4746 (-address, BERTH_ADDR)"
}

// errorOf returns the error of an answer that is not a success.
func errorOf(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	kind := structs.Kind(resp.Header.Get(headerErrorKind))
	if resp.StatusCode == http.StatusBadRequest &&
		bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
		return structs.Invalidf("the agent at %s expects https: use https:// in -address or BERTH_ADDR",
			resp.Request.URL.Host)
	}
	return &structs.Error{
		Kind:       cmp.Or(kind, structs.KindFromHTTP(resp.StatusCode)),
		Text:       cmp.Or(strings.TrimSpace(string(text)), resp.Status),
		RetryAfter: retryAfter(resp.Header),
		Socket:     resp.Header.Get(headerSocket),
	}
}

// retryAfter returns the delay before a retry that the agent or a proxy names. 0 is none.
func retryAfter(h http.Header) time.Duration {
	exact, err := time.ParseDuration(h.Get(headerRetryExact))
	if err == nil && exact > 0 {
		return exact
	}
	seconds, _ := strconv.ParseUint(h.Get(headerRetryAfter), 10, 16) // a date counts as none
	return time.Duration(seconds) * time.Second
}

// callJSON decodes the body of the answer into out. A body that is not JSON is an internal error.
func (c *Client) callJSON(ctx context.Context, r request, out any) (*Meta, error) {
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer closeBody(resp)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	err = json.Unmarshal(body, out)
	if err != nil {
		return nil, structs.Internalf("the answer of the agent at %s is invalid: %w",
			c.cfg.Address, err)
	}
	return metaOf(resp.Header), nil
}

func metaOf(h http.Header) *Meta {
	m := &Meta{
		KnownLeader: h.Get(headerKnownLeader) == "true",
		NextToken:   h.Get(headerNextToken),
	}
	m.Index, _ = strconv.ParseUint(h.Get(headerIndex), 10, 64) // some answers have none
	ms, _ := strconv.ParseInt(h.Get(headerLastContact), 10, 64)
	m.LastContact = time.Duration(ms) * time.Millisecond
	return m
}

// secretsHeader returns the header with the secrets of a plugin.
func secretsHeader(s structs.Secrets) (http.Header, error) {
	if len(s) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(map[string]string(s))
	if err != nil {
		return nil, fmt.Errorf("encoding secrets: %w", err)
	}
	encoded := base64.StdEncoding.EncodeToString(b)
	return http.Header{headerBerthSecrets: {encoded}}, nil
}
