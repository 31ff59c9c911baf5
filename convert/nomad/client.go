package nomad

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/structs"
)

// The bounds of what a cluster may answer.
const (
	maxAnswer  = 32 << 20 // bytes of one answer
	maxPages   = 10_000   // of one list
	maxObjects = 200_000  // of one list
	pageSize   = 200
	callTime   = time.Minute
)

// client calls one agent of the cluster.
type client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// newClient returns a client for an address. config may be nil.
func newClient(address, token string, config *tls.Config) (*client, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, structs.Invalidf("-address is %q; expected a URL such as http://127.0.0.1:4646",
			structs.Cut(address, structs.MaxQuoted))
	}

	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config}
	return &client{
		base:  base,
		token: token,
		http: &http.Client{
			Transport: transport,
			Timeout:   callTime,
			// A redirect would carry the token to another address.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the cluster answers %d: %s", e.status, structs.Cut(e.text, 200))
}

// hasStatus reports whether an error is an answer with one of the statuses.
func hasStatus(err error, statuses ...int) bool {
	var s *statusError
	if !errors.As(err, &s) {
		return false
	}
	for _, want := range statuses {
		if s.status == want {
			return true
		}
	}
	return false
}

// errNothing is an answer without an error and without content: versions of the dialect without dynamic host
// volumes answer like that for the list of them.
var errNothing = errors.New("the answer of the cluster is empty")

// get reads the JSON of a path, whose parts are escaped. It returns the token of the next page, "" without
// one.
func (c *client) get(ctx context.Context, path string, query url.Values, dst any) (next string, err error) {
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return "", structs.Invalidf("the path %s: %w", path, err)
	}
	if c.token != "" {
		req.Header.Set("X-Nomad-Token", c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", structs.Unavailablef("%w", err)
	}
	defer func() { _ = resp.Body.Close() }()

	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", structs.Unavailablef("reading %s: %w", path, err)
	case len(body) > maxAnswer:
		return "", structs.Invalidf("%s: the answer has more than %d bytes", path, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return "", &statusError{status: resp.StatusCode, text: string(body)}
	case len(body) == 0:
		return "", errNothing
	}
	err = json.Unmarshal(body, dst)
	if err != nil {
		return "", structs.Invalidf("%s: the answer is not the JSON of the API: %w", path, err)
	}
	return resp.Header.Get("X-Nomad-Nexttoken"), nil
}

// list reads all pages of a list in all namespaces.
func list[T any](ctx context.Context, c *client, path string, query url.Values) (all []T, err error) {
	query.Set("namespace", "*")
	query.Set("per_page", strconv.Itoa(pageSize))
	for range maxPages {
		var page []T
		next, err := c.get(ctx, path, query, &page)
		if errors.Is(err, errNothing) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		switch {
		case len(all) > maxObjects:
			return nil, structs.Invalidf("%s: the list has more than %d objects", path, maxObjects)
		case next == "":
			return all, nil
		case next == query.Get("next_token"):
			return nil, structs.Invalidf("%s: the page after %q is the same one", path,
				structs.Cut(next, structs.MaxQuoted))
		}
		query.Set("next_token", next)
	}
	return nil, structs.Invalidf("%s: the list has more than %d pages", path, maxPages)
}
