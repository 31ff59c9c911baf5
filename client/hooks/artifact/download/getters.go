package download

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/hashicorp/go-getter/v2"
)

// getters returns the protocols: git, http and https, and file if the agent allows it.
func getters(req *Request, g *guard) []getter.Getter {
	header := http.Header{}
	for name, value := range req.Headers {
		header.Set(name, value)
	}

	list := []getter.Getter{
		gitGetter{&getter.GitGetter{
			Detectors: []getter.Detector{
				new(getter.GitHubDetector),
				new(getter.GitDetector),
				bitbucketDetector{},
				new(getter.GitLabDetector),
			},
		}, g},
		&getter.HttpGetter{
			Client: httpClient(req, g),
			Header: header,
			// A request before the download would cost time, and some servers reject HEAD.
			DoNotCheckHeadFirst: true,
			// A server must not lead to another source by a header of its answer.
			XTerraformGetDisabled: true,
		},
	}

	if req.Files {
		list = append(list, fileGetter{new(getter.FileGetter)})
	}

	return list
}

// bitbucketDetector turns the short form of an address at Bitbucket into one for git. The library's own asks
// Bitbucket which system a repository uses, by a request that goes past the guard and its bounds. Git is the
// only one that is left.
type bitbucketDetector struct{}

// Detect implements getter.Detector.
func (bitbucketDetector) Detect(source, _ string) (string, bool, error) {
	if !strings.HasPrefix(source, "bitbucket.org/") {
		return "", false, nil
	}
	u, err := url.Parse("https://" + source)
	if err != nil {
		return "", true, err
	}
	if !strings.HasSuffix(u.Path, ".git") {
		u.Path += ".git"
	}
	return "git::" + u.String(), true, nil
}

// httpClient returns the client for sources by HTTP, whose connections the guard opens.
func httpClient(req *Request, g *guard) *http.Client {
	transport := g.transport()
	if req.Insecure {
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return &http.Client{Transport: &sizeLimit{transport, req.Limits}}
}

// sizeLimit fails answers above a size. go-getter would cut them without an error.
type sizeLimit struct {
	http.RoundTripper
	limits Limits
}

func (l *sizeLimit) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &limitedBody{resp.Body, l.limits.MaxSize.Bytes, l.limits}
	return resp, nil
}

// limitedBody is a body that fails beyond a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left   int64
	limits Limits
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if int64(n) > b.left {
		most := b.limits.MaxSize
		return 0, b.limits.exceeded(most.Passing,
			"the answer has more than %d bytes (%s)", most.Bytes, most.By)
	}
	b.left -= int64(n)
	return n, err
}

// gitGetter rejects an address that git would take for an option: go-getter gives git the address and the ref
// without a "--" before them. It makes git connect by the guard.
type gitGetter struct {
	*getter.GitGetter
	guard *guard
}

// Get implements getter.Getter.
func (g gitGetter) Get(ctx context.Context, req *getter.Request) error {
	return g.guarded(req, func() error { return g.GitGetter.Get(ctx, req) })
}

// GetFile implements getter.Getter.
func (g gitGetter) GetFile(ctx context.Context, req *getter.Request) error {
	return g.guarded(req, func() error { return g.GitGetter.GetFile(ctx, req) })
}

// guarded runs git, all of whose connections go through the guard.
func (g gitGetter) guarded(req *getter.Request, get func() error) error {
	err := checkAddress(req.URL())
	if err != nil {
		return err
	}

	// Its HTTP goes through the relay, its other protocols through a program that guardGit names.
	r, err := newRelay(g.guard)
	if err != nil {
		return err
	}
	defer r.close()

	err = guardGit(g.guard, r.ln.Addr())
	if err != nil {
		return fmt.Errorf("setting the connections of git: %w", err)
	}

	err = get()
	if err != nil && g.guard.rejection() != nil {
		return g.guard.rejection() // git shows less
	}

	return err
}

// checkAddress checks all parts of an address that may become arguments of git or ssh.
func checkAddress(u *url.URL) error {
	// Without a protocol git takes the address for a path of the machine.
	if u.Scheme == "" || u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") ||
		strings.HasPrefix(u.User.Username(), "-") {
		return errors.New("the address of a repository must have a protocol and a host that does not begin with -")
	}
	// With ssh, the path becomes an argument of a program on the server.
	if u.Scheme != "http" && u.Scheme != "https" && strings.HasPrefix(strings.TrimLeft(u.Path, "/~"), "-") {
		return errors.New("the path of a repository must not begin with -")
	}
	for _, ref := range u.Query()["ref"] {
		if strings.HasPrefix(ref, "-") {
			return errors.New("the ref of a repository must not begin with -")
		}
	}
	return nil
}

// fileGetter copies directories, which go-getter would link to.
type fileGetter struct {
	*getter.FileGetter
}

func (fileGetter) Get(_ context.Context, req *getter.Request) error {
	return os.CopyFS(req.Dst, os.DirFS(req.URL().Path))
}
