package api

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"berth/structs"
	"berth/structs/access"
)

// Route is one line of the API.
type Route struct {
	Methods string // separated by blanks
	Path    string // a pattern of net/http's ServeMux without a method
	serve   func(*Call) (any, error)
	answer  reflect.Type // the client decodes into it; nil for a route without a call
	Jobs    bool         // its body may have jobs or volumes, and therefore a larger bound
	Streams bool         // its body or its answer is a stream without a bound
	Needs   access.Needs // of a route that the agent serves itself; "" for one of a method
	LeadsOn bool         // it is served as another route, which is in the audit log
	Also    int          // a status beside 2xx that has the answer as its body; 0 for none
	Null    bool         // the answer may be null
}

// mostBody returns the bound of a request's body in bytes. 0 is no bound.
func (r Route) mostBody() int64 {
	switch {
	case r.Streams:
		return 0
	case r.Jobs:
		return structs.MaxHTTPJob
	}
	return structs.MaxHTTPBody
}

// The methods of a route.
const (
	Get    = "GET"
	Put    = "PUT POST" // the dialect allows both
	Remove = "DELETE"
)

// Table has the routes of an area. The variables of the area fill it at the start of the process, each route
// above its call, and nothing changes it after that.
type Table struct{ routes []*Route }

// Routes returns the routes of the table.
func (t *Table) Routes() []*Route { return t.routes }

// Handle declares a route without a call of the client.
func (t *Table) Handle(
	methods, path string, serve func(*Call) (any, error), options ...func(*Route),
) *Route {
	r := &Route{
		Methods: methods,
		Path:    path,
		serve:   serve,
	}
	for _, set := range options {
		set(r)
	}
	t.routes = append(t.routes, r)
	return r
}

// HoldsJobs is the option of a route whose body may have jobs or volumes.
func HoldsJobs(r *Route) { r.Jobs = true }

// Streams is the option of a route whose body or answer is a stream without a bound.
func Streams(r *Route) { r.Streams = true }

func AnswersNull(r *Route) { r.Null = true }

func AnswersAlso(status int) func(*Route) {
	return func(r *Route) { r.Also = status }
}

// Endpoint is a route together with its client call. The client decodes the answer into a T. The receivers of
// its methods are pointers, and the route is not embedded: otherwise the compiler would write all methods
// several times for each T.
type Endpoint[T any] struct {
	table *Table
	route *Route
}

// NewEndpoint declares an endpoint in the table of its area.
func NewEndpoint[T any](
	t *Table, methods, path string, serve ServeFunc[T], options ...func(*Route),
) *Endpoint[T] {
	r := t.Handle(methods, path, serve, options...)
	r.answer = reflect.TypeFor[T]()
	return &Endpoint[T]{t, r}
}

// Fetch reads a resource. id is "" if the path has none.
func (e *Endpoint[T]) Fetch(ctx context.Context, c *Client, id string, q *Query) (
	T, *Meta, error,
) {
	return e.call(ctx, c, Request{ID: id, Query: QueryValues(q)})
}

// Send calls an endpoint and drops the headers of the answer.
func (e *Endpoint[T]) Send(ctx context.Context, c *Client, r Request) (T, error) {
	out, _, err := e.call(ctx, c, r)
	return out, err
}

func (e *Endpoint[T]) call(ctx context.Context, c *Client, r Request) (
	T, *Meta, error,
) {
	var out T
	meta, err := e.route.Decode(ctx, c, r, &out)
	return out, meta, err
}

// Page calls an endpoint.
func (e *Endpoint[T]) Page(ctx context.Context, c *Client, r Request) (T, *Meta, error) {
	return e.call(ctx, c, r)
}

// Decode calls an endpoint and decodes an answer of another type than T into out.
func (e *Endpoint[T]) Decode(ctx context.Context, c *Client, r Request, out any) (*Meta, error) {
	return e.route.Decode(ctx, c, r, out)
}

// Exec calls an endpoint and drops the answer.
func (e *Endpoint[T]) Exec(ctx context.Context, c *Client, r Request) error {
	return e.route.Exec(ctx, c, r)
}

// Open calls an endpoint whose answer is not JSON. The caller closes the body.
func (e *Endpoint[T]) Open(ctx context.Context, c *Client, r Request) (*http.Response, error) {
	return e.route.Open(ctx, c, r)
}

// At declares a second route with the same answer, without a call.
func (e *Endpoint[T]) At(methods, path string, options ...func(*Route)) *Route {
	return e.table.Handle(methods, path, e.route.serve, options...)
}

// Decode calls a route and decodes the answer into out.
func (r *Route) Decode(ctx context.Context, c *Client, req Request, out any) (*Meta, error) {
	req.route = r
	return c.callJSON(ctx, req, out)
}

// Exec calls a route and drops the answer.
func (r *Route) Exec(ctx context.Context, c *Client, req Request) error {
	_, err := r.Decode(ctx, c, req, reflect.New(r.answer).Interface())
	return err
}

// Open calls a route whose answer is not JSON. The caller closes the body.
func (r *Route) Open(ctx context.Context, c *Client, req Request) (
	*http.Response, error,
) {
	req.route = r
	return c.open(ctx, req)
}

// method returns the method that the client uses.
func (r *Route) method() string {
	return strings.Fields(r.Methods)[0]
}
