package disk

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Endpoint serves the data of ended allocations of this node to their successors on other nodes.
func Endpoint(c Config) rpc.Endpoint {
	return rpc.Handle(nodecalls.ClientAllocData, c.serve)
}

// serve answers with one page. The allocation may have ended before it took over its own data, so this comes
// first.
func (c Config) serve(
	ctx context.Context, req *nodecalls.AllocDataRequest,
) (*nodecalls.AllocDataResponse, error) {
	// The successor repeats the call, so nothing waits here.
	select {
	case <-c.Complete:
	default:
		return nil, structs.Unavailablef("the node still restores its allocations")
	}

	local, here := c.Local(req.AllocID)
	if !here {
		return nil, structs.Preconditionf("the node has removed the directory of allocation %s", req.AllocID)
	}

	select {
	case <-local.Unwound:
	default:
		return nil, structs.Unavailablef("allocation %s has not released everything of it yet", req.AllocID)
	}

	instead, err := c.settle(ctx, local, longestChain)
	if err != nil || instead != "" {
		return &nodecalls.AllocDataResponse{Instead: instead}, err
	}

	root, err := openDir(local.Dir)
	if err != nil {
		return nil, err
	}
	defer closeDir(root)

	p := &pager{root: root, left: nodecalls.AllocDataPage}
	dirs := dataDirs(local.Alloc.Job.Group(local.Alloc.TaskGroup))
	resp, err := p.read(dirs, req)
	// The sums need a walk over all files, so only the first page has them.
	if err == nil && req.After == "" {
		resp.Bytes, resp.Files, err = p.measure(ctx, dirs)
	}

	return resp, err
}

// pager reads a page of the files below some directories, in the order of their names, each directory before
// its content.
type pager struct {
	root    *os.File
	left    int // bytes of the page
	entries []*nodecalls.AllocDataEntry
}

// errFull ends the walk of a page.
var errFull = errors.New("the page is full")

// place is the last file of the page before: below a directory, or the directory or file itself ("").
type place struct {
	below  string
	offset int64 // above 0: the file goes on here
}

// read reads the page that begins behind the place in a request.
func (p *pager) read(dirs []string, req *nodecalls.AllocDataRequest) (*nodecalls.AllocDataResponse, error) {
	var at *place
	if req.After != "" {
		first := slices.IndexFunc(dirs, func(d string) bool {
			return req.After == d || strings.HasPrefix(req.After, d+"/")
		})
		// The request comes from another node, which is not trusted.
		if first < 0 || len(req.After) > nodecalls.MaxDataPath || req.Offset < 0 {
			return nil, structs.Invalidf("there is no place %d of %q in the data", req.Offset, req.After)
		}

		dirs = dirs[first:]
		below := strings.TrimPrefix(req.After[len(dirs[0]):], "/")
		at = &place{below, req.Offset}
	}

	for _, dir := range dirs {
		err := p.walk(dir, at)
		if errors.Is(err, errFull) {
			return &nodecalls.AllocDataResponse{Entries: p.entries}, nil
		}
		if err != nil {
			return nil, err
		}

		at = nil
	}

	return &nodecalls.AllocDataResponse{Entries: p.entries, Done: true}, nil
}

// walk adds a file and all below it. at is nil, or a place in it: then walk adds all behind that.
func (p *pager) walk(path string, at *place) error {
	// The page before has ended within this file.
	goesOn := at != nil && at.below == "" && at.offset > 0
	if at == nil || goesOn {
		var offset int64
		if goesOn {
			offset = at.offset
		}

		isDir, err := p.add(path, offset)
		if err != nil || !isDir {
			return err
		}
	}

	names, err := p.names(path)
	if err != nil {
		return err
	}

	var first string
	var deeper *place
	if at != nil && at.below != "" {
		var rest string
		first, rest, _ = strings.Cut(at.below, "/")
		deeper = &place{rest, at.offset}
	}

	// Earlier pages have the names before the first one.
	for _, name := range names {
		if name < first {
			continue
		}

		var at *place
		if name == first {
			at = deeper
		}

		err := p.walk(path+"/"+name, at)
		if err != nil {
			return err
		}
	}

	return nil
}

// names returns the sorted names in a directory, none if it is no directory.
func (p *pager) names(path string) ([]string, error) {
	dir, err := openBelow(p.root, path, unix.O_DIRECTORY)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer closeDir(dir)

	// One name more shows that there are too many.
	names, err := dir.Readdirnames(nodecalls.MaxDataFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	if len(names) > nodecalls.MaxDataFiles {
		return nil, structs.Invalidf("%s has more than %d files", path, nodecalls.MaxDataFiles)
	}

	// Each page goes on in the same order.
	slices.Sort(names)
	return names, nil
}

// measure adds up the files below some directories. It ends above the number of files that may move.
func (p *pager) measure(ctx context.Context, dirs []string) (bytes int64, files int, err error) {
	// The task decides on the depth of the tree, so this does not recurse.
	left := slices.Clone(dirs)
	for len(left) > 0 && files <= nodecalls.MaxDataFiles {
		path := left[len(left)-1]
		left = left[:len(left)-1]
		st, err := p.stat(path)

		// A mount (EXDEV) does not move, so its files do not count.
		if isGone(err) || errors.Is(err, unix.EXDEV) {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return 0, 0, err
		}

		files++
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			bytes += st.Size
		case unix.S_IFDIR:
			names, err := p.names(path)
			if err != nil {
				return 0, 0, err
			}

			for _, name := range names {
				left = append(left, path+"/"+name)
			}
		}
	}
	return bytes, files, nil
}

// stat looks at a file itself, also if it is a link.
func (p *pager) stat(path string) (st unix.Stat_t, err error) {
	f, err := openBelow(p.root, path, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer closeDir(f)
	return st, unix.Fstat(int(f.Fd()), &st)
}

// add adds a file, or its bytes from an offset. It leaves out what is neither a file nor a directory nor a
// link, and mounts.
func (p *pager) add(path string, offset int64) (isDir bool, err error) {
	// An entry costs about 128 bytes beside its texts.
	p.left -= len(path) + 128

	// Each page has an entry, so that the transfer comes to an end.
	if len(p.entries) > 0 && (p.left <= 0 || len(p.entries) >= nodecalls.AllocDataEntries) {
		return false, errFull
	}

	f, err := openBelow(p.root, path, unix.O_PATH)
	if isGone(err) || errors.Is(err, unix.EXDEV) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closeDir(f)

	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false, err
	}

	e := &nodecalls.AllocDataEntry{
		Path:    path,
		Mode:    st.Mode,
		UID:     st.Uid,
		GID:     st.Gid,
		ModTime: st.Mtim.Nano(),
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		isDir = true
	case unix.S_IFREG:
		e.Offset = offset
		err = p.fill(e)
	case unix.S_IFLNK:
		e.Link, err = readLink(f)
		p.left -= len(e.Link)
	default:
		return false, nil
	}
	if err != nil {
		return false, err
	}

	p.entries = append(p.entries, e)
	// The page ends in the middle of the file, where the next one goes on.
	if e.More {
		return false, errFull
	}

	return isDir, nil
}

// fill reads the bytes of a file that fit.
func (p *pager) fill(e *nodecalls.AllocDataEntry) error {
	// A task may have put a pipe there: the agent must not wait for its writer.
	f, err := openBelow(p.root, e.Path, unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	defer closeDir(f)

	info, err := f.Stat()
	// add has looked at the path before, which may lead to another file now.
	if err != nil || !info.Mode().IsRegular() {
		return err
	}

	left := max(0, info.Size()-e.Offset)

	// Each page has at least one byte, so that the transfer comes to an end.
	data := make([]byte, min(left, int64(max(p.left, 1))))
	_, err = f.ReadAt(data, e.Offset)
	if errors.Is(err, io.EOF) {
		err = structs.Internalf("%s became shorter", e.Path)
	}

	e.Data = string(data)
	e.More = int64(len(data)) < left
	p.left -= len(e.Data)
	return err
}

// readLink reads the target of a link that was opened as such.
func readLink(f *os.File) (string, error) {
	target := make([]byte, nodecalls.MaxDataPath+1)
	n, err := unix.Readlinkat(int(f.Fd()), "", target)
	if err != nil {
		return "", err
	}
	return string(target[:n]), nil
}
