package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"berth/api/transport"
	"berth/structs"
)

// DefaultAddress is the address of an agent's HTTP API without configuration.
const DefaultAddress = "http://127.0.0.1:4746"

// ClientConfig has the settings of a client.
type ClientConfig struct {
	// Address is http://host:port, https://host:port or unix:///path; default: BERTH_ADDR, then DefaultAddress
	Address   string
	Namespace string
	Region    string
	Token     string
	TLS       transport.TLS // of an address with https
	// Late is called in the goroutine of the caller when the answer to a request takes longer than LateAfter. A
	// blocking read waits for a change, so its answer is never late. Late may be nil.
	Late func()
}

// Client calls one agent. The calls are functions of the areas of the API, such as jobs.List, and take it as
// their second argument. Its methods are about the client itself: Close ends its connections, On binds it to
// a row, and Namespace and Address tell where it calls. An error has the kind that the agent gave it. The
// kind is unavailable if the agent cannot be reached. A Client is safe for concurrent use.
type Client struct {
	// cfg is read-only after NewClient: see Client.
	cfg   ClientConfig
	agent *transport.Transport
	bad   error // the fault of the configuration; every call returns it
	// created is the CreateIndex of the row on which writes act, 0 for any: see On.
	created uint64
	http    *http.Client
}

// NewClient returns a client. The calls of a client with an invalid configuration return an error.
func NewClient(cfg ClientConfig) *Client {
	cfg.Address = cmp.Or(cfg.Address, os.Getenv("BERTH_ADDR"), DefaultAddress)
	c := &Client{cfg: cfg, http: &http.Client{CheckRedirect: followRedirect}}
	c.agent, c.bad = transport.Open(cfg.Address, cfg.TLS)
	if c.bad == nil {
		c.http.Transport = c.agent.HTTP
	}
	return c
}

// NewClientVia returns a client whose requests another transport sends, for example to a handler of the same
// process. The environment has no effect on it.
func NewClientVia(cfg ClientConfig, via http.RoundTripper) *Client {
	cfg.Address = DefaultAddress
	c := NewClient(cfg)
	c.http.Transport = via
	return c
}

// Close closes idle connections. It may be used after that: the next call connects again.
func (c *Client) Close() {
	if c.bad == nil {
		c.agent.HTTP.CloseIdleConnections()
	}
}

// On returns a client whose destructive calls change no other row than that with the CreateIndex: one that
// was made anew under the same name since the caller has read it is a conflict. 0 allows any row.
func (c *Client) On(created uint64) *Client {
	bound := *c
	bound.created = created
	return &bound
}

// Namespace returns the namespace of the calls.
func (c *Client) Namespace() string {
	return structs.NamespaceOr(c.cfg.Namespace)
}

// Address returns the address of the agent.
func (c *Client) Address() string {
	return c.cfg.Address
}

// Request is one call of a route.
type Request struct {
	route   *Route
	escaped bool   // the parts of the path
	ID      string // in place of {id} or restOfPath
	Tag     string // in place of {tag}
	Query   url.Values
	Header  http.Header
	Body    any // an io.Reader, or a value to send as JSON
}

// Query has the options of a read. An empty namespace or region is the client's.
type Query = structs.QueryOptions

// Meta has the index of a read and the token of its next page.
type Meta = structs.QueryMeta

// QueryValues returns the parameters for the options of a query.
func QueryValues(q *Query) url.Values {
	v := url.Values{}
	if q == nil {
		return v
	}

	SetGiven(v, "region", q.Region)
	SetGiven(v, "namespace", q.Namespace)
	SetGiven(v, "prefix", q.Prefix)
	SetGiven(v, "filter", q.Filter)
	SetGiven(v, "sort", q.Sort)
	SetGiven(v, "next_token", q.NextToken)
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
func SetGiven(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// Raw sends a request to a route whose path is escaped and names no ID. The caller closes the answer.
func Raw(ctx context.Context, c *Client, to *Route, r Request) (*http.Response, error) {
	r.route = to
	r.escaped = true
	return c.open(ctx, r)
}

// open sends a request and returns a successful answer. It repeats a read that an overloaded server rejected,
// and calls Late if the answer is late.
func (c *Client) open(ctx context.Context, r Request) (*http.Response, error) {
	send := func() (*http.Response, error) { return c.openOnce(ctx, r) }

	if r.route.method() == http.MethodGet {
		send = repeated(ctx, send)
	}
	if c.cfg.Late != nil && !r.Query.Has("index") {
		return tellLate(c.cfg.Late, send)
	}
	return send()
}

func (c *Client) openOnce(ctx context.Context, r Request) (*http.Response, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}

	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.agent.Explain(ctx, err)
	}
	// r.route.Also is a status whose body is an answer of the route.
	if resp.StatusCode/100 != 2 && resp.StatusCode != r.route.Also {
		defer CloseBody(resp)
		return nil, errorOf(resp)
	}
	return resp, nil
}

// restOfPath is the last part of the pattern of a path whose ID has slashes.
const restOfPath = "{path...}"

// urlOf returns the URL of a request, in the namespace and region of the client if the query names no other.
func (c *Client) urlOf(r Request) string {
	u := *c.agent.Base
	// Path and RawPath go in step: the second one says which slashes belong to an ID.
	for s := range strings.SplitSeq(r.route.Path[1:], "/") {
		if r.escaped {
			s, _ = url.PathUnescape(s) // Raw has checked it
		}
		switch s {
		case "{id}":
			s = r.ID
		case "{tag}":
			s = r.Tag
		}
		if s == restOfPath {
			u.Path += "/" + r.ID
			u.RawPath += "/" + strings.ReplaceAll(url.PathEscape(r.ID), "%2F", "/")
			continue
		}

		u.Path += "/" + s
		u.RawPath += "/" + url.PathEscape(s)
	}

	query := r.Query
	if query == nil {
		query = url.Values{}
	}

	SetGiven(query, "namespace", cmp.Or(query.Get("namespace"), c.cfg.Namespace))
	SetGiven(query, "region", cmp.Or(query.Get("region"), c.cfg.Region))
	if c.created != 0 && r.route.method() != http.MethodGet {
		query.Set("created", strconv.FormatUint(c.created, 10))
	}
	u.RawQuery = query.Encode()
	return u.String()
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	// A reader is sent as it is, without a copy in memory.
	var body io.Reader
	switch b := r.Body.(type) {
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

	maps.Copy(req.Header, r.Header)
	if c.cfg.Token != "" {
		req.Header.Set("X-Berth-Token", c.cfg.Token)
	}

	return req, nil
}

// closeBody closes the body of an answer. Its error loses nothing.
func CloseBody(resp *http.Response) { _ = resp.Body.Close() }

// errorOf returns the error of an answer that is not a success.
func errorOf(resp *http.Response) error {
	// Not more: the server may be no agent, and send pages without an end.
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	kind := structs.Kind(resp.Header.Get(HeaderErrorKind))
	// Go's server answers so when plain text meets TLS.
	if resp.StatusCode == http.StatusBadRequest && kind == "" &&
		bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
		return structs.Invalidf("the agent at %[1]s expects TLS: use https://%[1]s in -address or BERTH_ADDR, "+
			"and name its authority with -ca-cert or BERTH_CACERT", resp.Request.URL.Host)
	}
	if err := redirected(resp); err != nil {
		return err
	}
	// A proxy in between gives no kind, so its status stands for one.
	return &structs.Error{
		Kind:       cmp.Or(kind, structs.KindFromHTTP(resp.StatusCode)),
		Text:       cmp.Or(strings.TrimSpace(string(text)), resp.Status),
		RetryAfter: retryAfter(resp.Header),
		Socket:     resp.Header.Get(headerSocket),
	}
}

// retryAfter returns the delay before a retry that the agent or a proxy names. 0 is none.
func retryAfter(h http.Header) time.Duration {
	// The header of berth is exact. The standard one has whole seconds.
	exact, err := time.ParseDuration(h.Get(headerRetryExact))
	if err == nil && exact > 0 {
		return exact
	}
	seconds, _ := strconv.ParseUint(h.Get(headerRetryAfter), 10, 16) // a date counts as none
	return time.Duration(seconds) * time.Second
}

// callJSON decodes the body of the answer into out. A body that is not JSON, or not of out, is an internal
// error.
func (c *Client) callJSON(ctx context.Context, r Request, out any) (*Meta, error) {
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer CloseBody(resp)
	// The whole body is read before it is decoded, so a connection that breaks is told apart from a wrong
	// answer.
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.agent.Explain(ctx, err)
	}
	err = json.Unmarshal(body, out)
	if err == nil {
		err = checkAnswer(r.route, reflect.TypeOf(out), body)
	}
	if err != nil {
		return nil, structs.Internalf("the answer of the agent at %s is invalid: %w",
			c.cfg.Address, err)
	}
	return metaOf(resp.Header), nil
}

// A header that is missing or wrong leaves its field at zero.
func metaOf(h http.Header) *Meta {
	m := &Meta{
		KnownLeader: h.Get(headerKnownLeader) == "true",
		NextToken:   h.Get(headerNextToken),
	}
	m.Index, _ = strconv.ParseUint(h.Get(HeaderIndex), 10, 64) // some answers have none
	ms, _ := strconv.ParseInt(h.Get(headerLastContact), 10, 64)
	m.LastContact = time.Duration(ms) * time.Millisecond
	return m
}

// SecretsHeader returns the header with the secrets of a plugin. An encoded object takes any value, unlike
// the header of the dialect.
func SecretsHeader(s structs.Secrets) (http.Header, error) {
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
