package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"berth/structs"
)

// Route is one line of the API.
type Route struct {
	Methods string // separated by blanks
	Path    string // a pattern of net/http's ServeMux without a method
	serve   func(*call) (any, error)
	Jobs    bool // its body may have jobs or volumes, and therefore a larger bound
	Streams bool // its body or its answer is a stream without a bound
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

const (
	get    = "GET"
	put    = "PUT POST" // the dialect allows both
	remove = "DELETE"
)

// routes has all routes. The file of each noun declares its own, each above its client method. Their order
// depends on the names of these files, so only Routes reads the variable.
var routes []*Route

// Routes returns all routes in the order of their paths. Of one path, reads come first and removals last.
func Routes() []Route {
	all := make([]Route, 0, len(routes))
	for _, r := range routes {
		all = append(all, *r)
	}
	order := []string{get, put, remove}
	slices.SortFunc(all, func(a, b Route) int {
		byMethod := slices.Index(order, a.Methods) - slices.Index(order, b.Methods)
		return cmp.Or(cmp.Compare(a.Path, b.Path), byMethod)
	})
	return all
}

// handle declares a route without a client method.
func handle(methods, path string, serve func(*call) (any, error), options ...func(*Route)) *Route {
	r := &Route{
		Methods: methods,
		Path:    path,
		serve:   serve,
	}
	for _, set := range options {
		set(r)
	}
	routes = append(routes, r)
	return r
}

// The options of a route set its fields of the same names.
func holdsJobs(r *Route) { r.Jobs = true }
func streams(r *Route)   { r.Streams = true }

// endpoint is a route together with its client call. The client decodes the answer into a T.
type endpoint[T any] struct{ *Route }

// route declares an endpoint.
func route[T any](methods, path string, serve serveFunc[T], options ...func(*Route)) endpoint[T] {
	return endpoint[T]{handle(methods, path, serve, options...)}
}

// fetch reads a resource. id is "" if the path has none.
func (e endpoint[T]) fetch(ctx context.Context, c *Client, id string, q *Query) (
	T, *Meta, error,
) {
	return e.call(ctx, c, request{id: id, query: queryValues(q)})
}

// exec calls an endpoint and drops the answer.
func (e endpoint[T]) exec(ctx context.Context, c *Client, r request) error {
	_, _, err := e.call(ctx, c, r)
	return err
}

// send calls an endpoint and drops the headers of the answer.
func (e endpoint[T]) send(ctx context.Context, c *Client, r request) (T, error) {
	out, _, err := e.call(ctx, c, r)
	return out, err
}

func (e endpoint[T]) call(ctx context.Context, c *Client, r request) (
	T, *Meta, error,
) {
	var out T
	r.route = e.Route
	meta, err := c.callJSON(ctx, r, &out)
	return out, meta, err
}

// open calls an endpoint whose answer is not JSON. The caller closes the body.
func (e endpoint[T]) open(ctx context.Context, c *Client, r request) (
	*http.Response, error,
) {
	r.route = e.Route
	return c.open(ctx, r)
}

// method returns the method that the client uses.
func (r *Route) method() string {
	return strings.Fields(r.Methods)[0]
}
