package disk

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/hooks"
	"berth/internal/codec"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// pageCaller answers each call for a page with the next page, and then that the data is gone.
type pageCaller struct{ pages [][]byte }

func (c *pageCaller) Call(_ context.Context, method string, _, resp any) error {
	if method != nodecalls.AllocData.Name || len(c.pages) == 0 {
		return structs.Preconditionf("the data is gone")
	}
	page := c.pages[0]
	c.pages = c.pages[1:]
	err := codec.Decode(page, resp)
	if err != nil {
		return structs.Preconditionf("the connection rejects the page: %w", err)
	}
	return nil
}

// FuzzPages takes data over from two pages of any content. No entry leads out of the directory of the data,
// and the files have no more bytes than the entries.
func FuzzPages(f *testing.F) {
	for _, entries := range hostilePages() {
		page, err := codec.Encode(&nodecalls.AllocDataResponse{Entries: entries})
		if err != nil {
			f.Fatal(err)
		}
		last, err := codec.Encode(&nodecalls.AllocDataResponse{Entries: entries[len(entries)-1:], Done: true})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(page, last)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		root := t.TempDir()
		outside := filepath.Join(root, "outside")
		kit.Must(t, os.WriteFile(outside, []byte("kept"), 0o600))
		dir := filepath.Join(root, "b")
		kit.Must(t, os.Mkdir(dir, 0o755))
		u, err := newUnpacker(dir, []string{"alloc/data", "web/local"})
		kit.Must(t, err)
		defer u.close()
		d := &disk{
			Config: Config{
				Servers:  &pageCaller{[][]byte{first, second}},
				Logger:   hclog.NewNullLogger(),
				Settings: func() Settings { return Settings{MaxSize: 1 << 20} },
				Progress: func(string, string) {},
			},
			env: &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "b"}, Group: group(true, "web")},
		}
		_, _ = d.copyAll(t.Context(), &structs.Allocation{ID: "a", NodeID: "n1"}, u)
		checkUnpacked(t, root, u)
		text, err := os.ReadFile(outside)
		if err != nil || string(text) != "kept" {
			t.Fatalf("the file outside has %q, %v", text, err)
		}
	})
}

// checkUnpacked checks that a tree has only what an unpacker may make, and that in its own directory.
func checkUnpacked(t *testing.T, root string, u *unpacker) {
	t.Helper()
	size := int64(0)
	part := u.root.Name()
	kit.Must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(part, path)
		if err != nil {
			return err
		}
		switch {
		case path == filepath.Join(root, "outside"), e.IsDir():
		case !filepath.IsLocal(below):
			t.Errorf("%s is outside of %s", path, part)
		case info.Mode().IsRegular():
			size += info.Size()
		case info.Mode()&fs.ModeSymlink == 0:
			t.Errorf("%s is %s", path, info.Mode())
		}
		return nil
	}))
	if size > u.size {
		t.Errorf("the files have %d bytes of %d in the entries", size, u.size)
	}
}

// hostilePages are entries that a node may send.
func hostilePages() [][]*nodecalls.AllocDataEntry {
	file := func(path, data string) *nodecalls.AllocDataEntry {
		return &nodecalls.AllocDataEntry{Path: path, Mode: unix.S_IFREG | 0o644, Data: data}
	}
	dir := func(path string) *nodecalls.AllocDataEntry {
		return &nodecalls.AllocDataEntry{Path: path, Mode: unix.S_IFDIR | 0o700}
	}
	link := func(path, to string) *nodecalls.AllocDataEntry {
		return &nodecalls.AllocDataEntry{Path: path, Mode: unix.S_IFLNK | 0o777, Link: to}
	}
	part := func(path string, offset int64, data string, more bool) *nodecalls.AllocDataEntry {
		e := file(path, data)
		e.Offset = offset
		e.More = more
		return e
	}
	return [][]*nodecalls.AllocDataEntry{
		{dir("alloc/data"), file("alloc/data/f", "text"), link("alloc/data/l", "f"), dir("web/local")},
		{dir("alloc/data"), link("alloc/data/l", "../../../../../.."), file("alloc/data/l/outside", "x")},
		{dir("alloc/data"), link("alloc/data/l", "../../../../../outside"), part("alloc/data/l", 1, "x", false)},
		{dir("alloc/data"), part("alloc/data/f", 0, "x", true), part("alloc/data/f", 1, "y", false)},
		{dir("alloc/data"), part("alloc/data/f", 0, "x", true), part("alloc/data/f", 1<<40, "y", false)},
		{dir("alloc/data"), part("alloc/data/f", 0, "x", true), part("alloc/data/f", -1, "y", true)},
		{file("../outside", "x")}, {file("/outside", "x")}, {file("alloc/data/../../../outside", "x")},
		{dir("alloc/data"), {Path: "alloc/data/p", Mode: unix.S_IFIFO | 0o666}},
		{nil}, {dir("alloc/data"), nil},
	}
}
