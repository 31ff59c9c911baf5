package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/internal/strictjson"
	"berth/rpc"
	"berth/structs"
)

// call is one request being served.
type call struct {
	h      *handler
	w      http.ResponseWriter
	r      *http.Request
	began  bool // the answer has begun to be written: too late for a status code
	params url.Values
}

// serveFunc serves a route: it returns what is to be rendered as JSON, or has written the answer itself.
type serveFunc func(c *call) (answer any, err error)

func (c *call) ctx() context.Context { return c.r.Context() }
func (c *call) id() string           { return c.r.PathValue("id") }

func (c *call) param(name string) string { return c.values().Get(name) }

func (c *call) values() url.Values {
	if c.params == nil {
		c.params = c.r.URL.Query()
	}
	return c.params
}

// flag is a parameter that is on when it is there, unless it says false.
func (c *call) flag(name string) (bool, error) {
	switch v := c.param(name); {
	case !c.values().Has(name):
		return false, nil
	case v == "":
		return true, nil
	default:
		on, err := strconv.ParseBool(v)
		if err != nil {
			return false, badParam(name, v, "true or false")
		}
		return on, nil
	}
}

func badParam(name, value, expected string) error {
	return structs.Errorf(structs.KindInvalid, "the parameter %s is %q, expected %s", name,
		structs.Cut(value, structs.MaxQuoted), expected)
}

// read makes the serveFunc that calls a reading method. bind fills in what the path and parameters say
// beyond the common options, and may be nil; pick takes what is rendered out of the answer.
func read[Req, Resp any](m structs.Method[Req, Resp], bind func(*call, *Req) error,
	pick func(*Resp) any) serveFunc {
	return func(c *call) (any, error) {
		req := new(Req)
		if err := c.bindQuery(any(req).(interface{ Query() *structs.QueryOptions }).Query()); err != nil {
			return nil, err
		}
		if bind != nil {
			if err := bind(c, req); err != nil {
				return nil, err
			}
		}
		resp, err := rpc.Call(c.ctx(), c.h.Caller, m, req)
		if err != nil {
			return nil, err
		}
		if meta, ok := any(resp).(interface{ Meta() *structs.QueryMeta }); ok {
			c.setMeta(meta.Meta())
		}
		return pick(resp), nil
	}
}

// write is read for a writing method.
func write[Req, Resp any](m structs.Method[Req, Resp], bind func(*call, *Req) error,
	pick func(*Resp) any) serveFunc {
	return func(c *call) (any, error) {
		req := new(Req)
		c.bindWrite(any(req).(interface{ Write() *structs.WriteOptions }).Write())
		if bind != nil {
			if err := bind(c, req); err != nil {
				return nil, err
			}
		}
		resp, err := rpc.Call(c.ctx(), c.h.Caller, m, req)
		if err != nil {
			return nil, err
		}
		if meta, ok := any(resp).(interface{ Written() *structs.WriteMeta }); ok {
			c.setIndex(meta.Written().Index)
		}
		return pick(resp), nil
	}
}

// done is the answer to a write that has none of its own.
func done(e *structs.Empty) any { return e }

// bindQuery reads the options that every read has.
func (c *call) bindQuery(q *structs.QueryOptions) (err error) {
	q.Region, q.Namespace = c.param("region"), c.param("namespace")
	q.Prefix, q.Filter, q.Sort, q.NextToken = c.param("prefix"), c.param("filter"), c.param("sort"),
		c.param("next_token")
	q.AuthToken = c.token()
	if q.MinIndex, err = number[uint64](c, "index", 64); err != nil {
		return err
	}
	if q.PerPage, err = number[int32](c, "per_page", 31); err != nil {
		return err
	}
	if q.MaxWait, err = c.wait(); err != nil {
		return err
	}
	if q.Reverse, err = c.flag("reverse"); err != nil {
		return err
	}
	if q.AllowStale, err = c.flag("stale"); err != nil {
		return err
	}
	consistent, err := c.flag("consistent")
	if err == nil && consistent && q.AllowStale {
		err = structs.Errorf(structs.KindInvalid, "stale and consistent exclude each other")
	}
	return err
}

func (c *call) bindWrite(w *structs.WriteOptions) {
	w.Region, w.Namespace, w.AuthToken = c.param("region"), c.param("namespace"), c.token()
}

// maxWait caps how long a blocking read may be asked to wait.
const maxWait = 10 * time.Minute

func (c *call) wait() (time.Duration, error) {
	s := c.param("wait")
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, badParam("wait", s, "a duration such as 30s")
	}
	return min(d, maxWait), nil
}

// number reads a parameter that is a number of at most some bits and not negative.
func number[T uint64 | int32 | int64](c *call, name string, bits int) (T, error) {
	s := c.param(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, badParam(name, s, "a number that is not negative")
	}
	return T(n), nil
}

// token is the caller's secret, from whichever header carries it.
func (c *call) token() string {
	for _, name := range []string{"X-Berth-Token", "X-Nomad-Token"} {
		if t := c.r.Header.Get(name); t != "" {
			return t
		}
	}
	bearer, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return strings.TrimSpace(bearer)
}

// body decodes the request's body into dst and refuses what berth does not know of it.
func (c *call) body(dst any) error {
	text, err := io.ReadAll(c.r.Body)
	if bound, ok := c.r.Body.(*requestBody); ok && err == nil {
		err = bound.weigh(text)
	}
	if err == nil {
		err = strictjson.DecodeBytes(text, dst, strictjson.Options{Ignore: dialectDefault})
	}
	var ours *structs.Error
	if err == nil || errors.As(err, &ours) {
		return err
	}
	return structs.Errorf(structs.KindInvalid, "the body could not be read: %w", err)
}

// optionalBody is body for requests that may come without one.
func (c *call) optionalBody(dst any) error {
	if c.r.ContentLength == 0 || c.r.Body == http.NoBody {
		return nil
	}
	return c.body(dst)
}

// sameID refuses a body that names something other than the path.
func (c *call) sameID(what, inBody string) error {
	if inBody == "" || inBody == c.id() {
		return nil
	}
	return structs.Errorf(structs.KindInvalid, "the path names %s %q, the body %q", what,
		structs.Cut(c.id(), structs.MaxQuoted), structs.Cut(inBody, structs.MaxQuoted))
}

const (
	headerSecrets      = "X-Nomad-CSI-Secrets" // k=v,k=v
	headerBerthSecrets = "X-Berth-CSI-Secrets" // base64 of a JSON object: for values of every kind
)

// secrets reads a plugin's secrets from the headers.
func (c *call) secrets() (structs.Secrets, error) {
	if s := c.r.Header.Get(headerBerthSecrets); s != "" {
		var secrets structs.Secrets
		b, err := base64.StdEncoding.DecodeString(s)
		if err == nil {
			err = json.Unmarshal(b, &secrets)
		}
		if err != nil { // without the error's text, which may hold a secret
			return nil, structs.Errorf(structs.KindInvalid, "the header %s is not an object of strings in base64",
				headerBerthSecrets)
		}
		return secrets, nil
	}
	return parseSecrets(c.r.Header.Get(headerSecrets))
}

// parseSecrets reads k=v,k=v. A piece without "=" continues the value before it, which had a comma in it.
func parseSecrets(header string) (structs.Secrets, error) {
	if header == "" {
		return nil, nil
	}
	secrets, last := structs.Secrets{}, ""
	for _, piece := range strings.Split(header, ",") {
		k, v, ok := strings.Cut(piece, "=")
		k = strings.TrimSpace(k)
		switch {
		case ok && k != "":
			secrets[k], last = v, k
		case !ok && last != "":
			secrets[last] += "," + piece
		default:
			return nil, structs.Errorf(structs.KindInvalid, "the header %s is not of the form key=value,key=value",
				headerSecrets)
		}
	}
	return secrets, nil
}
