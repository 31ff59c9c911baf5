package kit

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inside is the environment variable of a process with its own namespace: the name of its test.
const inside = "BERTH_TEST_NETWORK"

// InOwnNetwork runs the calling test in a process of its own and with a network namespace of its own, which
// has a loopback interface. It reports whether the caller is in that process. In the other one the test has
// passed when InOwnNetwork returns. The machine needs the programs, and root.
func InOwnNetwork(t *testing.T, programs ...string) bool {
	t.Helper()
	if os.Getenv(inside) == t.Name() {
		return true
	}

	if os.Getuid() != 0 {
		SkipLacking(t, "root")
	}

	for _, name := range append(programs, "ip") {
		if _, err := exec.LookPath(name); err != nil {
			SkipLacking(t, "the program "+name)
		}
	}

	args := []string{"-c", "ip link set lo up && exec \"$@\"", "sh",
		os.Args[0], "-test.run=^" + t.Name() + "$", "-test.count=1", "-test.v"}
	for _, arg := range os.Args[1:] {
		if strings.HasPrefix(arg, "-test.timeout=") || strings.HasPrefix(arg, "-test.parallel=") {
			args = append(args, arg)
		}
	}

	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command("sh", args...)
	cmd.Env = append(os.Environ(), inside+"="+t.Name())
	cmd.SysProcAttr = &unix.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET,
		Pdeathsig:  unix.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Fatalf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Skipf("%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
	}

	return false
}

// plugins is where Debian has the plugins of CNI.
const plugins = "/usr/lib/cni"

// CNIPlugins returns the directory of the plugins of CNI of this machine. Without them it skips the test.
func CNIPlugins(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(plugins + "/bridge"); err != nil {
		SkipLacking(t, "the plugins of CNI in "+plugins)
	}
	return plugins
}
