package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/kit"
	"berth/test/shelf"
)

var (
	seedFlag    = flag.Uint64("seed", 1, "the faults and operations")
	minutesFlag = flag.Float64("minutes", 0, "the minutes with faults; 0: less than one")
	onlyFlag    = flag.String("only", "", "the only kinds of faults, with commas between them; none: all")
	steppedFlag = flag.Bool("stepped", false, "the program was built so that its wall clock can be stepped")
	keepFlag    = flag.Bool("keep", false, "keep the directory with the logs of the members")
)

// shortRun is the time with faults without a flag, in minutes.
const shortRun = 0.6

// roles has the processes of this binary.
var roles = map[string]func(args []string) int{
	"keeper": runKeeper,
	"world":  runWorld,
	"init":   runInit,
	"writer": runWriter,
	"fence":  runFence,
	"shelf":  shelf.Run,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && roles[os.Args[1]] != nil {
		os.Exit(roles[os.Args[1]](os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestChaos runs a cluster for some minutes. Without flags it is a short run. `make chaos` runs it with flags.
func TestChaos(t *testing.T) {
	minutes := *minutesFlag
	if minutes == 0 {
		minutes = shortRun
	}
	runUnderKeeper(t, "-minutes", fmt.Sprint(minutes), "-only", *onlyFlag, fmt.Sprint("-stepped=", *steppedFlag))
}

// runUnderKeeper runs a keeper with some settings, and checks that nothing is left.
func runUnderKeeper(t *testing.T, settings ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it makes namespaces and mounts")
	}
	program := os.Getenv("BERTH_BIN")
	if program == "" {
		kit.SkipLacking(t, "a built binary: BERTH_BIN")
	}
	dir, err := os.MkdirTemp("/tmp", "chaos")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"keeper", fmt.Sprint("-keep=", *keepFlag), "-dir", dir, "-program", program,
		"-seed", fmt.Sprint(*seedFlag)}
	cmd := exec.Command("/proc/self/exe", append(args, settings...)...)
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := cmd.StdinPipe() // its end tells the keeper the end of the tests
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Run()
	_ = alive.Close()
	if err != nil {
		t.Errorf("the run of seed %d: %v", *seedFlag, err)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir) + "*"); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	if _, err := os.Stat(dir); !*keepFlag && !os.IsNotExist(err) {
		t.Errorf("left is %s (%v)", dir, err)
	}
}

// settings are those of a run.
type settings struct {
	dir, program, only string
	keep, stepped      bool
	seed               uint64
	minutes            float64
	figure             string // to measure; none: a run with faults
	runs               int    // of the figure
}

func parseSettings(args []string) *settings {
	s := &settings{}
	flags := flag.NewFlagSet("chaos", flag.ExitOnError)
	flags.StringVar(&s.dir, "dir", "", "")
	flags.StringVar(&s.program, "program", "", "")
	flags.StringVar(&s.only, "only", "", "")
	flags.BoolVar(&s.keep, "keep", false, "")
	flags.BoolVar(&s.stepped, "stepped", false, "")
	flags.Uint64Var(&s.seed, "seed", 0, "")
	flags.Float64Var(&s.minutes, "minutes", 0, "")
	flags.StringVar(&s.figure, "figure", "", "")
	flags.IntVar(&s.runs, "runs", 0, "")
	_ = flags.Parse(args) // it exits
	return s
}

// runKeeper runs the world until its end or that of the tests, and removes what it leaves: the namespaces
// have ended with it, so that is a directory and empty cgroups.
func runKeeper(args []string) int {
	s := parseSettings(args)
	cmd := exec.Command("/proc/self/exe", append([]string{"world"}, args...)...)
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	code := 0
	err := startOnOwnThread(cmd)
	if err == nil {
		go func() {
			_, _ = os.Stdin.Read(make([]byte, 1))
			_ = cmd.Process.Kill()
		}()
		err = cmd.Wait()
	}
	if err != nil {
		fmt.Println("chaos:", err)
		code = 1
	}
	if err := removeCgroups(filepath.Base(s.dir)); err != nil {
		fmt.Println("chaos:", err)
		code = 1
	}
	if s.keep {
		fmt.Println("chaos: the logs are in", s.dir)
		return code
	}
	if err := os.RemoveAll(s.dir); err != nil {
		fmt.Println("chaos:", err)
		code = 1
	}
	return code
}

// removeCgroups removes the cgroups whose names begin with a text. They are busy until the kernel has
// reaped their processes.
func removeCgroups(prefix string) (err error) {
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		left := cgroupsOf(prefix)
		if len(left) == 0 {
			return nil
		}
		for _, group := range left {
			err = unix.Rmdir(group)
		}
	}
	return fmt.Errorf("cgroups of %s are busy: %w", prefix, err)
}

// cgroupsOf lists the cgroups whose names begin with a text and those in them, the deepest first.
func cgroupsOf(prefix string) (all []string) {
	for _, pattern := range []string{"/*", ""} { // first the tasks, then their parent
		for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // v2 and v1
			found, _ := filepath.Glob(root + prefix + "*" + pattern)
			for _, path := range found {
				if info, err := os.Stat(path); err == nil && info.IsDir() {
					all = append(all, path)
				}
			}
		}
	}
	return all
}
