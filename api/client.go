package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// DefaultAddress is where an agent serves HTTP unless it is told otherwise.
const DefaultAddress = "http://127.0.0.1:4746"

// ClientConfig says which agent to call, and on whose behalf.
type ClientConfig struct {
	Address   string // http://host:port or unix:///path; else BERTH_ADDR, else DefaultAddress
	Namespace string
	Region    string
	Token     string
}

// Client calls one agent. Its methods' errors have the kinds that the agent gave them; an agent that
// cannot be reached is unavailable. It may be used by many goroutines.
type Client struct {
	cfg  ClientConfig
	base *url.URL
	bad  error // why the configuration is of no use; every call answers it
	http *http.Client
}

// NewClient makes a client. An address that makes no sense is reported by its calls.
func NewClient(cfg ClientConfig) *Client {
	cfg.Address = firstOf(cfg.Address, os.Getenv("BERTH_ADDR"), DefaultAddress)
	c := &Client{cfg: cfg}
	c.base, c.bad = parseAddress(cfg.Address)
	transport := &http.Transport{DisableCompression: false, MaxIdleConnsPerHost: 8}
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
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "unix" || u.Host == "" &&
		u.Scheme != "unix" {
		return nil, structs.Errorf(structs.KindInvalid,
			"the address %q is not of the form http://host:port or unix:///path", s)
	}
	return u, nil
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Address is where the client calls.
func (c *Client) Address() string { return c.cfg.Address }

// Namespace is the namespace that the client names, the default filled in.
func (c *Client) Namespace() string { return structs.NamespaceOr(c.cfg.Namespace) }

// request is one call of a route.
type request struct {
	route  *Route
	id     string // in place of {id} in the path
	query  url.Values
	header http.Header
	body   any // an io.Reader, or what is sent as JSON
}

// Query are the options of a read: namespace and region come from the client unless set here.
type Query = structs.QueryOptions

func queryValues(q *Query) url.Values {
	v := url.Values{}
	if q == nil {
		return v
	}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("region", q.Region)
	set("namespace", q.Namespace)
	set("prefix", q.Prefix)
	set("filter", q.Filter)
	set("sort", q.Sort)
	set("next_token", q.NextToken)
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

// readTries is how often a read is asked for at most while the servers have too much to do.
const readTries = 6

// open sends a request and returns the answer when it is a success. A read that is refused because there is
// too much to do is asked for again when it was told to come.
func (c *Client) open(ctx context.Context, r request) (*http.Response, error) {
	for tries := 1; ; tries++ {
		resp, err := c.ask(ctx, r)
		after := structs.RetryAfter(err)
		if after == 0 || r.route.method() != http.MethodGet || tries == readTries {
			return resp, err
		}
		select {
		case <-time.After(after + rand.N(after/2+1)): // others were told, too
		case <-ctx.Done():
			return nil, err
		}
	}
}

// ask sends a request once.
func (c *Client) ask(ctx context.Context, r request) (*http.Response, error) {
	if c.bad != nil {
		return nil, c.bad
	}
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		defer func() { _ = resp.Body.Close() }()
		return nil, errorOf(resp)
	}
	return resp, nil
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	u := *c.base
	for _, s := range strings.Split(r.route.Path[1:], "/") {
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
	for name, value := range map[string]string{"namespace": c.cfg.Namespace, "region": c.cfg.Region} {
		if value != "" && !query.Has(name) {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	var body io.Reader
	switch b := r.body.(type) {
	case nil:
	case io.Reader:
		body = b
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			return nil, structs.Errorf(structs.KindInternal, "encoding the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, r.route.method(), u.String(), body)
	if err != nil {
		return nil, structs.Errorf(structs.KindInvalid, "making the request: %w", err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if c.cfg.Token != "" {
		req.Header.Set("X-Berth-Token", c.cfg.Token)
	}
	return req, nil
}

// transportError says that the agent was not reached, or that its answer did not come.
func (c *Client) transportError(ctx context.Context, err error) error {
	var op *net.OpError
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the URL, which says the address a second time
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return structs.Errorf(structs.KindTimeout, "no answer from the agent at %s in time", c.cfg.Address)
	case ctx.Err() != nil:
		return structs.Errorf(structs.KindTimeout, "given up: %w", ctx.Err())
	case errors.As(err, &op) && op.Op == "dial":
		return structs.Errorf(structs.KindUnavailable,
			"no agent can be reached at %s (-address, BERTH_ADDR): %w", c.cfg.Address, netfault.Plain(err))
	}
	return structs.Errorf(structs.KindTimeout, "the agent at %s did not answer: %w", c.cfg.Address,
		netfault.Plain(err))
}

// errorOf turns an answer that is not a success into an error of its kind.
func errorOf(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	kind := structs.Kind(resp.Header.Get(headerErrorKind))
	if kind == "" {
		kind = structs.KindFromHTTP(resp.StatusCode)
	}
	message := strings.TrimSpace(string(text))
	if message == "" {
		message = resp.Status
	}
	return &structs.Error{Kind: kind, Text: message, RetryAfter: retryAfter(resp.Header)}
}

// retryAfter is when the agent, or what stands before it, says to come again; 0 if it does not.
func retryAfter(h http.Header) time.Duration {
	if exact, err := time.ParseDuration(h.Get(headerRetryExact)); err == nil && exact > 0 {
		return exact
	}
	seconds, _ := strconv.ParseUint(h.Get(headerRetryAfter), 10, 16) // a date says nothing here
	return time.Duration(seconds) * time.Second
}

// do sends a request, reads its answer into out (nil: not at all) and returns what the headers say.
func (c *Client) do(ctx context.Context, r request, out any) (*structs.QueryMeta, error) {
	resp, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, c.transportError(ctx, err)
	}
	if out != nil {
		if err := json.Unmarshal(body, out); err != nil {
			return nil, structs.Errorf(structs.KindInternal, "the answer of the agent at %s makes no sense: %w",
				c.cfg.Address, err)
		}
	}
	return metaOf(resp.Header), nil
}

func metaOf(h http.Header) *structs.QueryMeta {
	m := &structs.QueryMeta{KnownLeader: h.Get(headerKnownLeader) == "true", NextToken: h.Get(headerNextToken)}
	m.Index, _ = strconv.ParseUint(h.Get(headerIndex), 10, 64) // absent from answers that have none
	ms, _ := strconv.ParseInt(h.Get(headerLastContact), 10, 64)
	m.LastContact = time.Duration(ms) * time.Millisecond
	return m
}

// secretsHeader carries a plugin's secrets.
func secretsHeader(s structs.Secrets) (http.Header, error) {
	if len(s) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(map[string]string(s))
	if err != nil {
		return nil, fmt.Errorf("encoding secrets: %w", err)
	}
	return http.Header{headerBerthSecrets: {base64.StdEncoding.EncodeToString(b)}}, nil
}
