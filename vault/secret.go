package vault

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"berth/structs"
)

// MaxPath bounds the path of a secret, in bytes.
const MaxPath = 512

// CheckPath rejects a path that is none of a secret: no segment of it leads elsewhere.
func CheckPath(path string) error {
	bad := path == "" || len(path) > MaxPath || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' })
	for part := range strings.SplitSeq(path, "/") {
		bad = bad || part == ".." || part == "."
	}
	if bad {
		return structs.Invalidf("%q is no path of a secret: expected 1 to %d bytes, and neither . nor .. between slashes", structs.Cut(path, structs.MaxQuoted), MaxPath)
	}
	return nil
}

// Place is the place of a secret, as a template names it.
type Place struct {
	Path    string
	Version string // of a secret in a KV engine of version 2, "" for the newest
}

// Read reads a secret. The path of a secret in a KV engine of version 2 may lack its part data. Without the
// secret the error is not-found.
func (c *Client) Read(ctx context.Context, a Access, p Place) (*Secret, error) {
	r := request{method: http.MethodGet, path: c.inEngine(ctx, a, p.Path, "data"), access: a}
	if p.Version != "" {
		r.query = url.Values{"version": {p.Version}}
	}
	return c.named(ctx, r)
}

// List lists the names below a path. The path of a KV engine of version 2 may lack its part metadata.
func (c *Client) List(ctx context.Context, a Access, path string) ([]string, error) {
	path = strings.TrimRight(path, "/")
	s, err := c.named(ctx, request{
		method: http.MethodGet,
		path:   c.inEngine(ctx, a, path, "metadata"),
		query:  url.Values{"list": {"true"}},
		access: a,
	})
	if err != nil {
		return nil, err
	}

	list, _ := s.Data["keys"].([]any)
	names := []string{}
	for _, key := range list {
		if name, ok := key.(string); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

// Write writes values to a path, such as that of a role that issues certificates, and returns the answer.
func (c *Client) Write(
	ctx context.Context, a Access, path string, values map[string]string,
) (*Secret, error) {
	body := map[string]any{}
	for name, value := range values {
		body[name] = value
	}
	return c.named(ctx, request{method: http.MethodPut, path: path, access: a, body: body})
}

// named adds the path to the error of a request.
func (c *Client) named(ctx context.Context, r request) (*Secret, error) {
	s, err := c.call(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", structs.Cut(r.path, structs.MaxQuoted), err)
	}
	return s, nil
}

// inEngine returns a path with the part that a KV engine of version 2 has behind its mount, unless it is
// there.
func (c *Client) inEngine(ctx context.Context, a Access, path, part string) string {
	// Vault tells each token about the engines that it may use. A failure leaves the path as it is written:
	// then it has to be the whole one.
	s, err := c.call(ctx, request{method: http.MethodGet, path: "sys/internal/ui/mounts/" + path, access: a})
	if err != nil {
		return path
	}

	options, _ := s.Data["options"].(map[string]any)
	mount, _ := s.Data["path"].(string)
	rest, within := strings.CutPrefix(path+"/", strings.TrimRight(mount, "/")+"/")
	if options["version"] != "2" || mount == "" || !within {
		return path
	}

	rest = strings.TrimRight(rest, "/")
	if rest == part || strings.HasPrefix(rest, part+"/") {
		return path
	}
	return strings.TrimRight(strings.TrimRight(mount, "/")+"/"+part+"/"+rest, "/")
}
