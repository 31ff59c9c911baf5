package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

// twoNodes returns two nodes, the first with an ended allocation, a, and the second with its successor b.
func twoNodes(t *testing.T) (from, to *node) {
	c := newCluster(t)
	from = c.addNode("n1")
	to = c.addNode("n2")
	from.place("a", "", group(true, "web", "gone"))
	from.write("a", oldFiles)
	to.place("b", "a", group(true, "web", "new"))
	return from, to
}

// fill writes files of all kinds, of more than a page.
func (n *node) fill(id string) {
	n.t.Helper()
	data := filepath.Join(n.dir, id, "alloc/data")
	big := bytes.Repeat([]byte("0123456789abcdef"), 2*nodecalls.AllocDataPage/16)
	big = append(big, 'x')
	for name, text := range map[string][]byte{"big": big, "big-2": big[:nodecalls.AllocDataPage], "empty": nil} {
		kit.Must(n.t, os.WriteFile(filepath.Join(data, name), text, 0o600))
	}
	n.make(id, "alloc/data/many")
	for i := range nodecalls.AllocDataEntries + 10 {
		kit.Must(n.t, os.WriteFile(filepath.Join(data, "many", fmt.Sprint(i)), []byte{byte(i)}, 0o644))
	}
	n.make(id, "alloc/data/empty directory")
	kit.Must(n.t, os.Symlink("/etc/passwd", filepath.Join(data, "link")))
	kit.Must(n.t, os.Symlink(strings.Repeat("x", 1000), filepath.Join(data, "dead link")))
	kit.Must(n.t, unix.Mkfifo(filepath.Join(data, "fifo"), 0o600))
	kit.Must(n.t, os.Chmod(filepath.Join(data, "empty"), 0o4751))
	kit.Must(n.t, os.Chmod(filepath.Join(data, "many"), 0o1777))
	kit.Must(n.t, os.Chtimes(filepath.Join(data, "empty"), time.Time{}, time.Unix(1e9, 123456000)))
	if os.Geteuid() == 0 {
		kit.Must(n.t, os.Lchown(filepath.Join(data, "link"), 1234, 1235))
		kit.Must(n.t, os.Chown(filepath.Join(data, "many"), 1236, 1237))
		kit.Must(n.t, os.Chown(filepath.Join(data, "big"), 1238, 1239))
	}
}

func (n *node) expectTree(id string, want []string) {
	n.t.Helper()
	got := tree(n.t, filepath.Join(n.dir, id, "alloc/data"))
	if slices.Equal(got, want) {
		return
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			n.t.Fatalf("allocation %s has %d files, want %d; the first difference is in file %d of\n%.200q\n%.200q",
				id, len(got), len(want), i, got[min(i, len(got)):], want[min(i, len(want)):])
		}
	}
}

func TestUp_CopiesDataFromAnotherNode(t *testing.T) {
	from, to := twoNodes(t)
	from.fill("a")
	want := tree(t, filepath.Join(from.dir, "a", "alloc/data"))
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		from.fail = func(page int) error {
			if page%3 != 0 {
				return nil
			}
			time.Sleep(progressEvery)
			return structs.Unavailablef("the connection is broken")
		}
		to.up("b")
	})
	to.expectTree("b", want)
	if got := to.files("b"); got["web/local/config"] != "three" || got["gone/local/config"] != "" ||
		got["web/secrets/token"] != "" {
		t.Error("the directories of the tasks are wrong")
	}
	from.expectTree("a", want)
	last := to.events[len(to.events)-1]
	if !strings.HasPrefix(last, "b: Took over 3.0 MiB in 20") ||
		!strings.HasSuffix(last, "of allocation a from node n1") {
		t.Errorf("the event is %q", last)
	}
	if !slices.ContainsFunc(to.said, func(s string) bool {
		return strings.HasPrefix(s, "b: takes over the data of allocation a from node n1: 2.0 MiB in 2 files")
	}) || to.said[len(to.said)-1] != "b: " {
		t.Errorf("it said %q", to.said)
	}
	t.Logf("%d pages in %s", from.pages, time.Since(begin))
}

// An agent that ends while the data comes leaves nothing of it in its place, and the next one begins again.
func TestUp_BeginsAgainAfterTheEndOfTheAgent(t *testing.T) {
	from, to := twoNodes(t)
	from.fill("a")
	want := tree(t, filepath.Join(from.dir, "a", "alloc/data"))
	for ended := 1; ended < 6; ended++ {
		ctx, cancel := context.WithCancel(t.Context())
		from.pages = 0
		from.fail = func(page int) error {
			if page == ended {
				cancel()
				return structs.Unavailablef("the agent ends")
			}
			return nil
		}
		h, env := to.hook("b")
		err := h.Up(ctx, env)
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("in page %d: %v", ended, err)
		}
		if got := to.files("b"); len(got) > 0 || Waits(env.Alloc, env.Dir) == "" {
			t.Fatalf("after page %d it has %d files", ended, len(got))
		}
	}
	from.fail = func(int) error { return nil }
	to.up("b")
	to.expectTree("b", want)
}

func TestUp_GoesOnAfterTheDataIsWhole(t *testing.T) {
	for moved := range 3 {
		from, to := twoNodes(t)
		b := to.local["b"]
		dirs := dataDirs(b.Alloc.Job.TaskGroups[0])
		whole := filepath.Join(b.Dir, ownDir, wholeName)
		kit.Must(t, os.Mkdir(filepath.Join(b.Dir, ownDir), 0o700))
		kit.Must(t, os.CopyFS(whole, os.DirFS(filepath.Join(from.dir, "a"))))
		kit.Must(t, moveDirs(whole, b.Dir, dirs[:moved]))
		delete(from.allocs, "a")
		to.up("b")
		to.expect("b", movedFiles)
	}
}

func TestUp_LeavesDataThatItCannotGet(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(from, to *node)
		want string
	}{
		"its node is down": {
			func(from, _ *node) { from.down["n1"] = true },
			"the data of allocation a does not come from node n1: it is down, or not registered any more",
		},
		"the allocation is gone": {
			func(from, _ *node) { delete(from.allocs, "a") },
			"allocation a is gone",
		},
		"its directory is gone": {
			func(from, _ *node) { delete(from.local, "a") },
			"does not come from node n1: the node has removed the directory of allocation a",
		},
		"its directory on this node is gone": {
			func(from, _ *node) { from.allocs["a"].NodeID = "n2" },
			"this node has removed the directory of allocation a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := twoNodes(t)
			c.edit(from, to)
			synctest.Test(t, func(t *testing.T) { to.up("b") })
			to.expect("b", map[string]string{})
			if len(to.events) != 1 || !strings.HasPrefix(to.events[0], "b: Starts with an empty disk: ") ||
				!strings.HasSuffix(to.events[0], c.want) {
				t.Errorf("events %q, want %q", to.events, c.want)
			}
		})
	}
}

// Nothing that an operator or another try can mend makes an allocation lose sight of its data.
func TestUp_WaitsForDataThatCannotComeNow(t *testing.T) {
	fault := func(err error) func(from, _ *node) {
		return func(from, _ *node) { from.fail = func(int) error { return err } }
	}
	mend := func(from, _ *node) { from.fail = func(int) error { return nil } }
	const mb = 1_000_000
	for name, c := range map[string]struct {
		edit, mend func(from, to *node)
		want       string
	}{
		"an older node": {
			fault(structs.Invalidf("there is no method")), mend, "there is no method",
		},
		"a fault of its disk": {
			fault(structs.Internalf("input/output error")), mend, "input/output error",
		},
		"more than the node takes": {
			func(_, to *node) { to.settings.MaxSize = mb },
			func(_, to *node) { to.settings.MaxSize = 20 * mb },
			"it has 9.5 MiB (10000012 bytes), more than the 977 KiB (1000000 bytes) of " +
				"client.moved_data.max_size on this node; raise that",
		},
		"more than the node has free": {
			func(_, to *node) { to.settings.MinFree = 1 << 50 },
			func(_, to *node) { to.settings.MinFree = 0 },
			"and keeps 1.0 PiB by client.moved_data.min_free",
		},
	} {
		t.Run(name, func(t *testing.T) {
			from, to := twoNodes(t)
			from.write("a", map[string]string{"alloc/data/log": strings.Repeat("x", 10*mb)})
			c.edit(from, to)
			synctest.Test(t, func(t *testing.T) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					to.up("b")
				}()
				time.Sleep(time.Hour)
				synctest.Wait()
				from.mu.Lock()
				if len(to.events) != 1 || !strings.Contains(to.events[0], c.want) ||
					!strings.HasPrefix(to.events[0], "b: The allocation waits for the data of allocation a on node n1: ") {
					t.Errorf("events %q, want one with %q", to.events, c.want)
				}
				if last := to.said[len(to.said)-1]; !strings.Contains(last, c.want) {
					t.Errorf("it said %q, want %q", last, c.want)
				}
				if exists(filepath.Join(to.dir, "b", ownDir, partName)) {
					t.Error("it keeps a part of the data meanwhile")
				}
				c.mend(from, to)
				from.mu.Unlock()
				<-done
			})
			if got := to.files("b")["alloc/data/log"]; len(got) != 10*mb {
				t.Errorf("it has %d bytes in the end", len(got))
			}
		})
	}
}

// A node that sends more than it has announced is bounded, too.
func TestUp_BoundsDataThatGrows(t *testing.T) {
	from, to := twoNodes(t)
	from.fill("a")
	to.settings.MaxSize = 2 << 20
	to.settings.MinFree = 0
	from.edit = func(p *nodecalls.AllocDataResponse) { p.Bytes, p.Files = 0, 0 }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		h, env := to.hook("b")
		if err := h.Up(ctx, env); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	if len(to.events) != 1 || !strings.Contains(to.events[0], "max_size") {
		t.Errorf("events %q", to.events)
	}
}

// The other node, or a task that ran there as root, gives no program rights on this one.
func TestUp_LeavesRightsOfPrograms(t *testing.T) {
	from, to := twoNodes(t)
	data := filepath.Join(from.dir, "a/alloc/data")
	from.write("a", map[string]string{"alloc/data/su": "x", "alloc/data/sg": "x"})
	from.make("a/alloc/data/shared")
	kit.Must(t, unix.Chmod(filepath.Join(data, "su"), 0o4755))
	kit.Must(t, unix.Chmod(filepath.Join(data, "sg"), 0o2755))
	kit.Must(t, unix.Chmod(filepath.Join(data, "shared"), 0o3770))
	root := os.Geteuid() == 0
	if root {
		// VFS_CAP_REVISION_2, effective, with CAP_SYS_ADMIN.
		caps := []byte{1, 0, 0, 2, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		kit.Must(t, unix.Setxattr(filepath.Join(data, "log"), "security.capability", caps, 0))
		kit.Must(t, unix.Lchown(filepath.Join(data, "log"), 4242, 4243))
		kit.MakeDevice(t, filepath.Join(data, "null"), unix.S_IFCHR|0o666, unix.Mkdev(1, 3))
	}
	to.up("b")
	data = filepath.Join(to.dir, "b/alloc/data")
	for name, want := range map[string]uint32{"su": 0o755, "sg": 0o755, "shared": 0o3770} {
		var st unix.Stat_t
		kit.Must(t, unix.Lstat(filepath.Join(data, name), &st))
		if st.Mode&0o7777 != want {
			t.Errorf("%s has the mode %o, want %o", name, st.Mode&0o7777, want)
		}
	}
	if !root {
		t.Log("only root makes owners, devices and capabilities")
		return
	}
	var st unix.Stat_t
	kit.Must(t, unix.Lstat(filepath.Join(data, "log"), &st))
	if st.Uid != 4242 || st.Gid != 4243 {
		t.Errorf("the owner is %d:%d", st.Uid, st.Gid)
	}
	if exists(filepath.Join(data, "null")) {
		t.Error("a device has moved")
	}
	_, err := unix.Getxattr(filepath.Join(data, "log"), "security.capability", make([]byte, 64))
	if !errors.Is(err, unix.ENODATA) {
		t.Errorf("a capability has moved: %v", err)
	}
}

// The servers and the node are tried until the allocation has ended and released everything.
func TestUp_WaitsForTheOtherNode(t *testing.T) {
	from, to := twoNodes(t)
	synctest.Test(t, func(t *testing.T) {
		a := from.local["a"]
		ended := make(chan struct{})
		a.Unwound = ended
		from.local["a"] = a
		done := make(chan struct{})
		go func() {
			defer close(done)
			to.up("b")
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(to.files("b")) > 0 {
			t.Error("it has data of an allocation that has not ended")
		}
		close(ended)
		<-done
	})
	to.expect("b", movedFiles)
}

// b, on the second node, has ended before it took over the data of a. c, on the first node or a third one,
// takes a's data.
func TestUp_AnotherAllocationHasTheData(t *testing.T) {
	for _, id := range []string{"n1", "n3"} {
		from, to := twoNodes(t)
		last := from.nodes[id]
		if last == nil {
			last = from.addNode(id)
		}
		last.place("c", "b", group(true, "web"))
		last.up("c")
		last.expect("c", movedFiles)
		to.expect("b", map[string]string{})
	}
}

func TestUnpacker_RejectsFaultyEntries(t *testing.T) {
	host := t.TempDir()
	link := &nodecalls.AllocDataEntry{Path: "alloc/data/link", Mode: unix.S_IFLNK, Link: host}
	file := func(path string) *nodecalls.AllocDataEntry {
		return &nodecalls.AllocDataEntry{Path: path, Mode: unix.S_IFREG | 0o600, Data: "x"}
	}
	dir := &nodecalls.AllocDataEntry{Path: "alloc/data", Mode: unix.S_IFDIR | 0o755}
	more := file("alloc/data/x")
	more.More, more.Data = true, ""
	for name, e := range map[string]*nodecalls.AllocDataEntry{
		"absolute":                  file("/alloc/data/x"),
		"outside":                   file("alloc/data/../../../x"),
		"through a link":            file("alloc/data/link/x"),
		"a link in place":           file("alloc/data/link"),
		"without a directory":       file("alloc/data/missing/x"),
		"a device":                  {Path: "alloc/data/x", Mode: unix.S_IFBLK},
		"too long":                  file("alloc/data/" + strings.Repeat("x", nodecalls.MaxDataPath)),
		"no bytes and more of them": more,
		"a negative offset":         {Path: "alloc/data/x", Mode: unix.S_IFREG, Offset: -1},
		"the middle of a new file":  {Path: "alloc/data/x", Mode: unix.S_IFREG, Offset: 9},
		"again":                     dir,
	} {
		u, err := newUnpacker(t.TempDir(), []string{"alloc/data"})
		kit.Must(t, err)
		kit.Must(t, u.add(dir))
		kit.Must(t, u.add(link))
		if err := u.add(e); err == nil {
			t.Errorf("%s: no error", name)
		}
		u.close()
	}
	if left, err := os.ReadDir(host); len(left) > 0 || err != nil {
		t.Errorf("the host has %v, %v", left, err)
	}
}

// All pages together have each file once, in whatever pieces they come.
func TestPager_PagesHaveEachFileOnce(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		kit.Must(t, os.MkdirAll(filepath.Join(dir, "alloc/data"), 0o755))
		dirs := []string{"alloc/data"}
		for range 60 {
			path := dirs[random.IntN(len(dirs))] + "/" + string("ab-./c"[random.IntN(4)]) + fmt.Sprint(random.IntN(9))
			if random.IntN(3) == 0 {
				if os.Mkdir(filepath.Join(dir, path), 0o755) == nil {
					dirs = append(dirs, path)
				}
				continue
			}
			text := bytes.Repeat([]byte{byte(random.IntN(256))}, random.IntN(3000))
			_ = os.WriteFile(filepath.Join(dir, path), text, 0o600) // it may be a directory
		}
		to := t.TempDir()
		u, err := newUnpacker(to, []string{"alloc/data"})
		kit.Must(t, err)
		root, err := openDir(dir)
		kit.Must(t, err)
		req := &nodecalls.AllocDataRequest{}
		for done := false; !done; {
			p := &pager{root: root, left: 1 + random.IntN(4000)}
			resp, err := p.read([]string{"alloc/data"}, req)
			kit.Must(t, err)
			for _, e := range resp.Entries {
				kit.Must(t, u.add(e))
			}
			done = resp.Done
			req.After, req.Offset = u.next()
		}
		kit.Must(t, u.commit())
		u.close()
		kit.Must(t, root.Close())
		got := tree(t, filepath.Join(to, ownDir, wholeName))
		if want := tree(t, dir); !slices.Equal(below(got), below(want)) {
			t.Fatalf("seed %d: got %d files, want %d", seed, len(got), len(want))
		}
	}
}

// below keeps the lines of the data: the directories above it are the unpacker's own.
func below(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return !strings.HasPrefix(l, "/alloc/data")
	})
}

func TestServe_RejectsOtherPlaces(t *testing.T) {
	from, _ := twoNodes(t)
	for _, after := range []string{"alloc/logs/web.0", "/etc", "..", "alloc/data/../../x", "web/secrets/token"} {
		resp, err := from.config().serve(t.Context(), &nodecalls.AllocDataRequest{AllocID: "a", After: after})
		if err == nil && len(resp.Entries) > 0 && !strings.HasPrefix(resp.Entries[0].Path, "alloc/data") {
			t.Errorf("after %s comes %s", after, resp.Entries[0].Path)
		}
	}
}
