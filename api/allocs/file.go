package allocs

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"berth/api"
	"berth/internal/allocdir"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/nodecalls"
)

var (
	allocFiles = api.NewEndpoint[[]*nodecalls.AllocFileInfo](&table, api.Get, "/v1/client/fs/ls/{id}",
		serveFiles(listFiles), api.Needs(access.NeedsReadFS))
	allocFile = api.NewEndpoint[*nodecalls.AllocFileInfo](&table, api.Get, "/v1/client/fs/stat/{id}",
		serveFiles(statFile), api.Needs(access.NeedsReadFS))
	allocCat = api.NewEndpoint[[]byte](&table, api.Get, "/v1/client/fs/cat/{id}",
		serveFiles(catFile), api.Streams, api.Needs(access.NeedsReadFS))
	allocReadAt = api.NewEndpoint[[]byte](&table, api.Get, "/v1/client/fs/readat/{id}",
		serveFiles(readFile), api.Streams, api.Needs(access.NeedsReadFS))
	allocStream = api.NewEndpoint[[]byte](&table, api.Get, "/v1/client/fs/stream/{id}",
		serveFiles(streamFile), api.Streams, api.Needs(access.NeedsReadFS))
)

// fileRequest is a request for a file of an allocation, or a directory.
type fileRequest struct {
	allocdir.Options
	limit int64 // bytes to read; 0 for all
	plain bool  // bytes instead of frames
	dir   *allocdir.Dir
}

// serveFiles serves a request for a file of an allocation on the node of this agent. It forwards the request
// to the agent of another node, over one hop.
func serveFiles(serve func(*api.Call, *fileRequest) (any, error)) func(*api.Call) (any, error) {
	return func(c *api.Call) (any, error) {
		req, err := bindFile(c)
		if err != nil {
			return nil, err
		}

		// The agent of another node answers with the same code.
		dir, err := c.Agent.AllocDir(c.ID())
		if err != nil {
			return nil, c.ForwardIfFar(err)
		}

		// A follower ends with the tasks that write.
		req.Ended = dir.Ended
		req.dir, err = allocdir.Open(dir.Path)
		if err != nil {
			return nil, err
		}
		// It is open for the whole stream.
		defer func() { _ = req.dir.Close() }()

		return serve(c, req)
	}
}

// bindFile reads the parameters of all routes of files.
func bindFile(c *api.Call) (*fileRequest, error) {
	place, err := bindPlace(c)
	if err != nil {
		return nil, err
	}

	req := &fileRequest{Options: place}
	req.Path = c.Param("path")
	// As in the dialect, a stream follows unless the client says no.
	req.Follow = true
	if len(req.Path) > structs.MaxText {
		return nil, structs.Invalidf("the parameter path has %d bytes, expected at most %d",
			len(req.Path), structs.MaxText)
	}

	var faults [3]error
	req.limit, faults[0] = limitParam(c)
	req.plain, faults[1] = c.Flag("plain")
	if c.Params().Has("follow") {
		req.Follow, faults[2] = c.Flag("follow")
	}

	return req, cmp.Or(faults[:]...)
}

// limitParam reads the number of bytes to read. Clients of the dialect send 0 and less for all.
func limitParam(c *api.Call) (int64, error) {
	s := cmp.Or(c.Param("limit"), "0")
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, api.BadParam("limit", s, "a number")
	}
	return max(n, 0), nil
}

// bindPlace reads the parameters that name a place in a file or log.
func bindPlace(c *api.Call) (o allocdir.Options, err error) {
	switch origin := c.Param("origin"); origin {
	case "", "start":
	case "end":
		o.FromEnd = true
	default:
		return o, api.BadParam("origin", origin, "start or end")
	}

	o.Offset, err = api.NumberParam[int64](c, "offset", 63)
	if err != nil {
		return o, err
	}

	count, err := api.NumberParam[int64](c, "lines", 31)
	switch {
	case err != nil:
		return o, err
	case count > structs.MaxTailLines:
		return o, api.BadParam("lines", c.Param("lines"), "at most "+strconv.Itoa(structs.MaxTailLines))
	// To count lines from the start would be to read the whole file.
	case count > 0 && !o.FromEnd:
		return o, structs.Invalidf("the parameter lines counts back from the end; expected origin=end, too")
	}

	o.Lines = int(count)
	return o, nil
}

func listFiles(c *api.Call, req *fileRequest) (any, error) {
	return req.dir.List(req.Path)
}

func statFile(c *api.Call, req *fileRequest) (any, error) {
	if req.Path == "" {
		return nil, errNoPath()
	}
	return req.dir.Stat(req.Path)
}

func errNoPath() error {
	return api.BadParam("path", "", "the path of a file in the allocation")
}

// catFile sends a whole file.
func catFile(c *api.Call, req *fileRequest) (any, error) {
	req.Offset = 0
	req.limit = 0
	return readFile(c, req)
}

// readFile sends a part of a file. It ends where the file ends now.
func readFile(c *api.Call, req *fileRequest) (any, error) {
	if req.Path == "" {
		return nil, errNoPath()
	}

	// A part of a file counts as a stream: it may be large, and its client slow.
	release, err := c.TakeStream()
	if err != nil {
		return nil, err
	}
	defer release()

	f, err := req.dir.File(req.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()

	// The size is fixed here. Bytes that a task appends later are not sent.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}

	size := max(0, info.Size()-req.Offset)
	if req.limit > 0 {
		size = min(size, req.limit)
	}

	c.SetStreamHeaders("application/octet-stream")
	// By its length a client sees that the file became shorter.
	c.Writer.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	part := io.NewSectionReader(f, req.Offset, size)
	// The wrappers hide ReadFrom and WriteTo, which would bypass the bounds of c.Write.
	_, err = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{part}, make([]byte, api.FrameSize))
	c.Began = true // also without a byte
	return nil, err
}

// streamFile sends a file as frames, or as bytes (plain), and follows it.
func streamFile(c *api.Call, req *fileRequest) (any, error) {
	if req.Path == "" {
		return nil, errNoPath()
	}
	return nil, c.Stream(api.Stream{
		Name:  req.Path,
		Plain: req.plain,
		Open: func(ctx context.Context) (api.Parts, error) {
			return req.dir.Read(ctx, req.Options)
		},
	})
}

// ListFiles lists a directory of an allocation. path is relative to the allocation's directory, with or
// without a slash before it.
func ListFiles(ctx context.Context, c *api.Client, id, path string) ([]*nodecalls.AllocFileInfo, error) {
	return allocFiles.Send(ctx, c, api.Request{ID: id, Query: url.Values{"path": {path}}})
}

// StatFile describes a file of an allocation. See AllocFiles for the path.
func StatFile(ctx context.Context, c *api.Client, id, path string) (*nodecalls.AllocFileInfo, error) {
	return allocFile.Send(ctx, c, api.Request{ID: id, Query: url.Values{"path": {path}}})
}

// Cat reads a file of an allocation. The caller closes it.
func Cat(ctx context.Context, c *api.Client, id, path string) (io.ReadCloser, error) {
	return openBody(allocCat.Open(ctx, c, api.Request{ID: id, Query: url.Values{"path": {path}}}))
}

// FilePart is a part of a file, in bytes. A Limit of 0 is no limit.
type FilePart struct{ Offset, Limit int64 }

// ReadAt reads a part of a file of an allocation. The caller closes it.
func ReadAt(ctx context.Context, c *api.Client, id, path string, part FilePart) (io.ReadCloser, error) {
	query := url.Values{
		"path":   {path},
		"offset": {strconv.FormatInt(part.Offset, 10)},
		"limit":  {strconv.FormatInt(part.Limit, 10)},
	}
	return openBody(allocReadAt.Open(ctx, c, api.Request{ID: id, Query: query}))
}

// FileOptions select a place in a file. Offset counts bytes from the start, or back from the end with
// FromEnd. If Lines is above 0, it is the number of last lines to begin with, in place of Offset.
type FileOptions struct {
	Follow  bool
	FromEnd bool
	Offset  int64
	Lines   int64
}

// StreamFile streams a file of an allocation as bytes. With Follow it ends with the allocation, or when the
// file is deleted. The caller closes the stream.
func StreamFile(ctx context.Context, c *api.Client, id, path string, o FileOptions) (
	io.ReadCloser, error,
) {
	query := url.Values{
		"path":   {path},
		"plain":  {"true"},
		"follow": {strconv.FormatBool(o.Follow)},
	}
	setPlace(query, o.FromEnd, o.Offset, o.Lines)
	return openBody(allocStream.Open(ctx, c, api.Request{ID: id, Query: query}))
}

// setPlace sets the parameters that name a place in a file or log. A number of lines is always one from the
// end.
func setPlace(query url.Values, fromEnd bool, offset, lines int64) {
	origin := "start"
	if fromEnd {
		origin = "end"
	}
	query.Set("origin", origin)
	query.Set("offset", strconv.FormatInt(offset, 10))
	if lines > 0 {
		query.Set("origin", "end")
		query.Set("lines", strconv.FormatInt(lines, 10))
	}
}

// openBody gives the body to the caller, who closes it.
func openBody(resp *http.Response, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	return api.ConfirmedBody(resp), nil
}
