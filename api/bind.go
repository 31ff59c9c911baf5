package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/internal/conf"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
)

// Call is one request that the handler serves. It lives as long as the request, and is used by one goroutine.
type Call struct {
	*handler
	Writer  http.ResponseWriter
	Request *http.Request
	Began   bool // the answer is partly written, so its status cannot change
	// The query is parsed at its first use, because many requests have none.
	params url.Values

	Ignored ignoredFields // of the job in the body
	caller  access.Caller // of a route that the agent serves itself
}

// ServeFunc serves a route. It returns a value to render as JSON, or it writes the answer itself. The client
// decodes the answer into a T.
type ServeFunc[T any] func(c *Call) (answer any, err error)

// Ctx returns the context of the request, which ends with it.
func (c *Call) Ctx() context.Context {
	return c.Request.Context()
}

// ID is the part of the path that names the resource, without escapes.
func (c *Call) ID() string { return c.Request.PathValue("id") }

// Tag is the part of the path that names a tag, without escapes.
func Tag(c *Call) string { return c.Request.PathValue("tag") }

// SetHeader sets a header of the answer.
func (c *Call) SetHeader(name, value string) { c.Writer.Header().Set(name, value) }

// Source returns the address of the caller without its port, "" for one at a socket of the machine.
func Source(c *Call) string {
	host, _, err := net.SplitHostPort(c.Request.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// Param returns "" for a parameter that is missing, as for an empty one.
func (c *Call) Param(name string) string {
	return c.Params().Get(name)
}

// Params returns all parameters of the query. The caller changes none.
func (c *Call) Params() url.Values {
	if c.params == nil {
		c.params = c.Request.URL.Query()
	}
	return c.params
}

// Flag reads a parameter that is true if it is present without a value.
func (c *Call) Flag(name string) (bool, error) {
	switch v := c.Param(name); {
	case !c.Params().Has(name):
		return false, nil
	case v == "":
		return true, nil

	default:
		on, err := strconv.ParseBool(v)
		if err != nil {
			return false, BadParam(name, v, "true or false")
		}
		return on, nil
	}
}

// badParam cuts the value, which is of any size, in its text.
func BadParam(name, value, expected string) error {
	shown := structs.Cut(value, structs.MaxQuoted)
	return structs.Invalidf("the parameter %s is %q, expected %s",
		name, shown, expected)
}

// The parts of requests and responses that the handler sets and reads.
type (
	readRequest   interface{ Query() *structs.QueryOptions }
	writeRequest  interface{ Write() *structs.WriteOptions }
	readResponse  interface{ Meta() *structs.QueryMeta }
	writeResponse interface{ Written() *structs.WriteMeta }
)

// ServeMethod returns the ServeFunc of a remote procedure. bind sets the fields of the request that are not
// common options and may be nil. pick selects the part of the response that is rendered.
func ServeMethod[Req, Resp, T any](
	m structs.Method[Req, Resp],
	bind func(*Call, *Req) error,
	pick func(*Resp) T,
) ServeFunc[T] {
	return callMethod(rpc.MethodOf(m), bindAny(bind), func(resp any) any {
		return pick(resp.(*Resp))
	})
}

// callMethod is ServeMethod without the types of the method, so that its code is in the program once. The
// compiler would inline it for each method.
//
//go:noinline
func callMethod(
	m rpc.Method,
	bind func(c *Call, req any) error,
	pick func(resp any) any,
) func(*Call) (any, error) {
	return func(c *Call) (any, error) {
		req := m.NewRequest()
		err := bindRequest(c, req, bind)
		if err != nil {
			return nil, err
		}

		resp := m.NewAnswer()
		err = c.Caller.Call(c.Ctx(), m.Name, req, resp)
		if err != nil {
			return nil, err
		}

		switch r := resp.(type) {
		case readResponse:
			c.setMeta(r.Meta())
		case writeResponse:
			c.SetIndex(r.Written().Index)
		}

		return pick(resp), nil
	}
}

// bindAny returns a bind for a request of any type. It returns nil for nil.
func bindAny[Req any](bind func(*Call, *Req) error) func(c *Call, req any) error {
	if bind == nil {
		return nil
	}
	return func(c *Call, req any) error {
		return bind(c, req.(*Req))
	}
}

// bindRequest sets the common options of a request and then calls bind. The common options come first, so
// that bind can read and override them.
func bindRequest(c *Call, req any, bind func(c *Call, req any) error) error {
	switch r := req.(type) {
	case readRequest:
		if err := c.bindQuery(r.Query()); err != nil {
			return err
		}
	case writeRequest:
		if err := c.BindWrite(r.Write()); err != nil {
			return err
		}
	}
	if bind == nil {
		return nil
	}
	return bind(c, req)
}

// WithID returns a bind that sets the ID of the path and nothing else.
func WithID[Req any](set func(req *Req, id string)) func(*Call, *Req) error {
	return func(c *Call, req *Req) error {
		set(req, c.ID())
		return nil
	}
}

// bindQuery reads the options that every read has. It returns the error of the first invalid one.
func (c *Call) bindQuery(q *structs.QueryOptions) error {
	q.Region = c.Param("region")
	q.Namespace = c.Param("namespace")
	q.Prefix = c.Param("prefix")
	q.Filter = c.Param("filter")
	q.Sort = c.Param("sort")
	q.NextToken = c.Param("next_token")
	q.AuthToken = c.Token()
	// All are parsed and the first fault is reported, in the order below.
	var consistent bool
	var faults [6]error
	q.MinIndex, faults[0] = NumberParam[uint64](c, "index", 64)
	q.PerPage, faults[1] = NumberParam[int32](c, "per_page", 31)
	q.MaxWait, faults[2] = c.waitParam()
	q.Reverse, faults[3] = c.Flag("reverse")
	q.AllowStale, faults[4] = c.Flag("stale")
	consistent, faults[5] = c.Flag("consistent")
	if err := cmp.Or(faults[:]...); err != nil {
		return err
	}

	// Each names the opposite of the other, so one of them is a mistake.
	if consistent && q.AllowStale {
		return structs.Invalidf("stale and consistent exclude each other")
	}

	return nil
}

func (c *Call) BindWrite(w *structs.WriteOptions) (err error) {
	w.Region = c.Param("region")
	w.Namespace = c.Param("namespace")
	w.AuthToken = c.Token()
	w.Created, err = NumberParam[uint64](c, "created", 64)
	return err
}

// maxWait bounds the time for which a blocking read waits.
const maxWait = 10 * time.Minute

func (c *Call) waitParam() (time.Duration, error) {
	s := c.Param("wait")
	if s == "" {
		return 0, nil
	}

	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, BadParam("wait", s, "a duration such as 30s")
	}
	return min(d, maxWait), nil
}

// numberParam reads a parameter that is a non-negative number. bits bounds its size. The field in the request
// has as many bits, so a number that does not fit is a fault and is not cut.
func NumberParam[T uint64 | int32 | int64](c *Call, name string, bits int) (T, error) {
	s := c.Param(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, BadParam(name, s, "a number that is not negative")
	}
	return T(n), nil
}

// tokenHeaders may have the secret of the caller.
var tokenHeaders = []string{"X-Berth-Token", "X-Nomad-Token", "Authorization"}

// Token returns the secret of the caller from the first header that has it.
func (c *Call) Token() string { return TokenOf(c.Request.Header) }

// TokenOf returns the secret of the caller from the first header that has it.
func TokenOf(h http.Header) string {
	bearer, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		bearer = ""
	}
	return cmp.Or(
		h.Get("X-Berth-Token"),
		h.Get("X-Nomad-Token"),
		strings.TrimSpace(bearer),
	)
}

// DecodeBody decodes the body of the request into dst and rejects unknown fields. A body that is null would
// set nothing.
func (c *Call) DecodeBody(dst any) error {
	text, err := c.readBody()
	if err != nil {
		return err
	}
	// null decodes into any type without an error.
	if string(bytes.TrimSpace(text)) == "null" {
		return structs.Invalidf("the body is null; expected an object")
	}
	return conf.DecodeJSON(text, dst, DialectDefault)
}

// readBody reads the body of the request and reserves the memory to decode it. Decoding takes more memory
// than the text, so it has to fit into the budget of all bodies first.
func (c *Call) readBody() ([]byte, error) {
	text, err := io.ReadAll(c.Request.Body)
	bound, ok := c.Request.Body.(*requestBody)
	if ok && err == nil {
		err = bound.ReserveDecoded(text)
	}
	// Such an error has its kind, and often a status. Any other one is a fault of the connection.
	var ours *structs.Error
	if err == nil || errors.As(err, &ours) {
		return text, err
	}
	return nil, structs.Invalidf("the body could not be read: %w", err)
}

// DecodeOptionalBody is like DecodeBody, for a request that may have no body, or null.
func (c *Call) DecodeOptionalBody(dst any) error {
	if c.Request.ContentLength == 0 || c.Request.Body == http.NoBody {
		return nil
	}
	text, err := c.readBody()
	if err != nil {
		return err
	}
	return conf.DecodeJSON(text, dst, DialectDefault)
}

// missing is the error of a body without a field that has no default.
func Missing(field, expected string) error {
	return structs.Invalidf("%s: expected %s, found none", field, expected)
}

// SameID rejects a body whose ID differs from the ID in the path. Without an ID in the body the path's
// counts.
func (c *Call) SameID(noun, inBody string) error {
	if inBody == "" || inBody == c.ID() {
		return nil
	}
	return structs.Invalidf("the path names %s %q, the body %q",
		noun,
		structs.Cut(c.ID(), structs.MaxQuoted),
		structs.Cut(inBody, structs.MaxQuoted))
}

const (
	headerSecrets      = "X-Nomad-CSI-Secrets" // k=v,k=v
	headerBerthSecrets = "X-Berth-CSI-Secrets" // base64 of a JSON object, for any value
)

// Secrets reads the secrets of a plugin from the headers. The header of berth can have any value, also one
// with commas or equal signs.
func (c *Call) Secrets() (structs.Secrets, error) {
	encoded := c.Request.Header.Get(headerBerthSecrets)
	if encoded == "" {
		return parseSecrets(c.Request.Header.Get(headerSecrets))
	}

	var secrets structs.Secrets
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err == nil {
		err = json.Unmarshal(b, &secrets)
	}
	if err != nil { // its text may have a secret
		return nil, structs.Invalidf("the header %s is not an object of strings in base64",
			headerBerthSecrets)
	}
	return secrets, nil
}

// parseSecrets reads k=v,k=v. A piece without "=" continues the value before it, which has a comma.
func parseSecrets(header string) (structs.Secrets, error) {
	if header == "" {
		return nil, nil
	}

	secrets := structs.Secrets{}
	last := ""
	for piece := range strings.SplitSeq(header, ",") {
		k, v, ok := strings.Cut(piece, "=")
		k = strings.TrimSpace(k)
		switch {
		case ok && k != "":
			secrets[k] = v
			last = k
		// The dialect does not escape values, so this is the only way to keep one with a comma.
		case !ok && last != "":
			secrets[last] += "," + piece
		default:
			return nil, structs.Invalidf("the header %s is not of the form key=value,key=value",
				headerSecrets)
		}
	}

	return secrets, nil
}

// Waits reports whether a request is a blocking query, whose connection waits for a change. A wrong index is
// none: the answer names the fault at once.
func Waits(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.RawQuery == "" {
		return false
	}
	index, err := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	return err == nil && index > 0
}

// Whole selects the whole response.
func Whole[Resp any](a *Resp) *Resp { return a }

// DialectOptions has the parameters that the public client repeats in bodies.
type DialectOptions struct {
	Region    string
	Namespace string
	SecretID  json.RawMessage
}

// allowSecrets returns an error if the caller may have no values of variables and no join tokens: see
// Config.CheckSecrets.
func AllowSecrets(c *Call) error {
	if c.CheckSecrets == nil {
		return nil
	}
	return NoteDenied(c.Ctx(), c.Audit, c.CheckSecrets(c.Request))
}
