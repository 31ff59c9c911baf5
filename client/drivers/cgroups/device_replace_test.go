package cgroups

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// openerVar makes the test binary the program of TestRealFilter_IsReplacedWithoutAGap.
const openerVar = "BERTH_TEST_OPENER"

func TestMain(m *testing.M) {
	if os.Getenv(openerVar) != "" {
		openForEver()
	}
	os.Exit(m.Run())
}

// openForEver opens one device that it may always open and one that it never may, and reports each 200
// rounds. It ends with the first wrong answer, or when nobody reads its reports.
func openForEver() {
	for round := 1; ; round++ {
		for path, want := range map[string]bool{"/dev/null": true, "/dev/zero": false} {
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err == nil {
				_ = unix.Close(fd)
			}
			if (err == nil) != want {
				fmt.Printf("round %d: opening %s: %v\n", round, path, err)
				os.Exit(1)
			}
		}
		if round%200 != 0 {
			continue
		}
		if _, err := fmt.Println("ok"); err != nil {
			os.Exit(0)
		}
	}
}

// onEachHierarchy runs a test with each of the hierarchies that this machine has for devices, alone. A
// machine where v1 has all controllers may have the unified one as well.
func onEachHierarchy(t *testing.T, test func(*testing.T, *Machine)) {
	t.Helper()
	machines := map[string]*Machine{}
	if dir := Detect().V1[Devices]; dir != "" {
		machines["v1"] = &Machine{V1: map[string]string{Devices: dir}, Missing: map[string]string{}}
	}
	if dir := unifiedHierarchy(t); dir != "" {
		machines["v2"] = &Machine{V2: dir, Missing: map[string]string{}}
	}
	if len(machines) == 0 {
		kit.SkipLacking(t, "a hierarchy of control groups that restricts devices")
	}
	for name, m := range machines {
		t.Run(name, func(t *testing.T) {
			skipUnlessRestricting(t, m)
			test(t, m)
		})
	}
}

// unifiedHierarchy returns the mount point of the unified hierarchy, "" if the machine has none.
func unifiedHierarchy(t *testing.T) string {
	t.Helper()
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup2"))
	if err != nil {
		t.Fatal(err)
	}
	if len(mounts) == 0 {
		return ""
	}
	return mounts[0].Mountpoint
}

func skipUnlessRestricting(t *testing.T, m *Machine) {
	t.Helper()
	skipUnlessWritable(t, m)
	if why := m.Missing[Devices]; why != "" {
		t.Fatal(why)
	}
}

// rulesFor returns the rules for files below /dev, such as "null rw".
func rulesFor(t *testing.T, devices ...string) []DeviceRule {
	t.Helper()
	var rules []DeviceRule
	for _, d := range devices {
		name, permissions, _ := strings.Cut(d, " ")
		rule, err := RuleOf("/dev/"+name, permissions)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule)
	}
	return rules
}

// openedIn returns the devices that a process of a group can open, of four for reading and for both.
func openedIn(t *testing.T, g *Group) string {
	t.Helper()
	out := runInGroup(t, g, `
		for f in null full zero random; do
			(exec 3</dev/$f) && echo "$f:r"
			(exec 3<>/dev/$f) && echo "$f:rw"
		done 2>&-; true`)
	return strings.Join(strings.Fields(out), " ")
}

func TestRealFilter_IsReplaced(t *testing.T) {
	onEachHierarchy(t, func(t *testing.T, m *Machine) {
		// Two rules for one device are one: a process may open full for both at a time.
		g := makeRealGroup(t, m, Limits{Devices: rulesFor(t, "full r", "null r", "full w")})
		if got, want := openedIn(t, g), "null:r full:r full:rw"; got != want {
			t.Errorf("the process opened %q, want %q", got, want)
		}
		for range 3 {
			if err := g.RestrictDevices(rulesFor(t, "zero rwm", "full r")); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := openedIn(t, g), "full:r zero:r zero:rw"; got != want {
			t.Errorf("after the change the process opened %q, want %q", got, want)
		}
		if err := g.RestrictDevices(nil); err != nil {
			t.Fatal(err)
		}
		if got, want := openedIn(t, g), "full:r zero:r zero:rw"; got != want {
			t.Errorf("after a call without rules the process opened %q, want %q", got, want)
		}
	})
}

// A process makes device files only with "m", and that is not the right to open them.
func TestRealFilter_BoundsMknod(t *testing.T) {
	onEachHierarchy(t, func(t *testing.T, m *Machine) {
		dir := t.TempDir()
		kit.MakeDevice(t, dir+"/own", unix.S_IFCHR|0o600, unix.Mkdev(1, 3))
		g := makeRealGroup(t, m, Limits{Devices: rulesFor(t, "null rw", "full m")})
		out := runInGroup(t, g, `cd `+dir+`
			mknod null c 1 3 && echo made null
			mknod full c 1 7 && echo made full
			mknod block b 1 7 && echo made a block device
			(exec 3<full) && echo opened full
			true`)
		if want := "made full\n"; out != want {
			t.Errorf("the process reports %q, want %q", out, want)
		}
	})
}

// A process that opens devices all the time sees no moment without a filter, and none without its devices.
func TestRealFilter_IsReplacedWithoutAGap(t *testing.T) {
	onEachHierarchy(t, func(t *testing.T, m *Machine) {
		sets := [][]DeviceRule{
			rulesFor(t, "null rw", "full rw"),
			rulesFor(t, "null rw", "random r"),
		}
		g := makeRealGroup(t, m, Limits{Devices: sets[0]})
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), openerVar+"=1")
		reports, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		startInGroup(t, cmd, g)
		lines := make(chan string)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			for range lines { // until the end of the output
			}
			_ = cmd.Wait()
		})
		go func() {
			defer close(lines)
			for s := bufio.NewScanner(reports); s.Scan(); {
				lines <- s.Text()
			}
		}()
		changes := 0
		for seen := 0; seen < 50; {
			select {
			case line := <-lines:
				if line != "ok" {
					t.Fatalf("after %d changes: %q", changes, line)
				}
				seen++
			default:
				changes++
				if err := g.RestrictDevices(sets[changes%2]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if changes < 10 {
			t.Errorf("the process saw %d changes", changes)
		}
	})
}
