package machines

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// roles has the processes of this binary.
var roles = map[string]func(args []string) error{
	"world":    runWorld,
	"machine":  runMachine,
	"tutorial": runTutorial,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		err := roles[os.Args[1]](os.Args[2:])
		if err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// maxCommands is the most commands from empty machines to a job that writes to a volume.
const maxCommands = 12

// The commands of README make a cluster of three servers and two nodes with TLS, encrypted gossip, and a job
// with a volume, word for word.
func TestStory_ReadmeMakesAClusterOfFiveMachines(t *testing.T) { testSite(t, "lan") }

// They do so on machines that are not ours, too, or they say within a minute what is wrong and what to type.
func TestReadme_SuitsOtherMachines(t *testing.T) {
	for name := range sites {
		if name != "lan" {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // it waits for most of its time
				testSite(t, name)
			})
		}
	}
}

// testSite runs the commands of README on the machines of a site.
func testSite(t *testing.T, site string) {
	program := os.Getenv("BERTH_BIN")
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it makes namespaces and mounts")
	}
	if program == "" {
		kit.SkipLacking(t, "a built binary: BERTH_BIN")
	}
	lines := readmeLines(t)
	if len(lines) == 0 || len(lines) > maxCommands {
		t.Fatalf("README has %d commands for five machines; expected 1 to %d", len(lines), maxCommands)
	}
	dir, err := os.MkdirTemp("/tmp", "machines")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := os.RemoveAll(dir)
		if err != nil {
			t.Error(err)
		}
		removeCgroups(t, filepath.Base(dir))
	})

	cmd := exec.Command("/proc/self/exe", append([]string{"world", dir, program, site}, lines...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	runtime.LockOSThread() // the death signal is bound to it
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// readmeLines returns the commands that README runs on five machines, as MACHINE# COMMAND.
func readmeLines(t *testing.T) (lines []string) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Five machines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		command, isCommand := strings.CutPrefix(line, "    ")
		if isCommand {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// removeCgroups removes what tasks that were killed have left.
func removeCgroups(t *testing.T, parent string) {
	limit := time.Now().Add(time.Minute)
	for {
		left := 0
		for _, pattern := range []string{"/*", ""} { // first the tasks, then their parent
			for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // v2 and v1
				found, _ := filepath.Glob(root + parent + pattern)
				for _, path := range found {
					info, err := os.Stat(path)
					if err == nil && info.IsDir() && unix.Rmdir(path) != nil {
						left++
					}
				}
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Errorf("%d cgroups of %s are busy", left, parent)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}
