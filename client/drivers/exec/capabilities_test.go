package exec_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Root in the sandbox has none of the capabilities that reach out of it, raw sockets among them
// (CVE-2021-32575 of the peer), and gets none by running a file.
func TestSandbox_RootHasNoCapabilityOverTheHost(t *testing.T) {
	r := newFixture(t)
	res, out := r.run(r.task("t", `grep -E 'Cap(Eff|Prm|Bnd|Inh)' /proc/self/status | cut -f2`))
	sets := strings.Fields(out)
	if len(sets) != 4 {
		t.Fatalf("got the end %+v and the output %q", res, out)
	}

	for _, set := range sets {
		mask, err := strconv.ParseUint(set, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		for name, capability := range map[string]int{
			"raw sockets":                 unix.CAP_NET_RAW,
			"administration of networks":  unix.CAP_NET_ADMIN,
			"administration":              unix.CAP_SYS_ADMIN,
			"traces":                      unix.CAP_SYS_PTRACE,
			"modules":                     unix.CAP_SYS_MODULE,
			"raw devices":                 unix.CAP_SYS_RAWIO,
			"device files":                unix.CAP_MKNOD,
			"reads past all permissions":  unix.CAP_DAC_READ_SEARCH,
			"programs of the kernel":      unix.CAP_BPF,
			"the time of the machine":     unix.CAP_SYS_TIME,
			"the end of the machine":      unix.CAP_SYS_BOOT,
			"priorities above all others": unix.CAP_SYS_NICE,
		} {
			if mask&(1<<capability) != 0 {
				t.Errorf("root may use %s: %s", name, set)
			}
		}
	}
}
