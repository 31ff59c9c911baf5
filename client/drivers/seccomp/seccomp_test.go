package seccomp

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/sandbox"
	"berth/test/kit"
)

const (
	allowed  = unix.SECCOMP_RET_ALLOW
	rejected = unix.SECCOMP_RET_ERRNO
)

// filterVM runs a compiled list on system calls without making them.
type filterVM struct {
	t  *testing.T
	vm *bpf.VM
}

func newFilterVM(t *testing.T, modes []*arch.Info, capabilities ...string) *filterVM {
	t.Helper()
	return newFilterVMOf(t, defaultList(t, capabilities...), modes)
}

func defaultList(t *testing.T, capabilities ...string) *specs.LinuxSeccomp {
	t.Helper()
	process := &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}
	list, err := seccomp.GetDefaultProfile(&specs.Spec{Process: process})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func newFilterVMOf(t *testing.T, list *specs.LinuxSeccomp, modes []*arch.Info) *filterVM {
	t.Helper()
	prog, err := compile(list, modes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bpf.Assemble(prog); err != nil || len(prog) > unix.BPF_MAXINSNS {
		t.Fatalf("the kernel would not take %d instructions (%v)", len(prog), err)
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	return &filterVM{t, vm}
}

// answer returns the answer to a call. The VM loads big-endian words, so each word is written as one.
func (m *filterVM) answer(id arch.AuditArch, number uint32, args ...uint64) uint32 {
	m.t.Helper()
	words := []uint32{number, uint32(id), 0, 0}
	for i := range 6 {
		var a uint64
		if i < len(args) {
			a = args[i]
		}
		words = append(words, uint32(a), uint32(a>>32))
	}
	var data []byte
	for _, w := range words {
		data = binary.BigEndian.AppendUint32(data, w)
	}
	got, err := m.vm.Run(data)
	if err != nil {
		m.t.Fatal(err)
	}
	return uint32(got)
}

func (m *filterVM) call(mode *arch.Info, name string, args ...uint64) uint32 {
	m.t.Helper()
	number, ok := mode.SyscallNames[name]
	if !ok {
		m.t.Fatalf("%s has no call %s", mode.Name, name)
	}
	return m.answer(mode.ID, uint32(number), args...)
}

var everyMode = []*arch.Info{arch.X86_64, arch.I386, arch.AARCH64, arch.ARM}

func TestFilter_RejectsNamespacesMountsAndKernelInterfaces(t *testing.T) {
	m := newFilterVM(t, everyMode, "CAP_CHOWN", "CAP_SYS_CHROOT")
	for _, mode := range everyMode {
		for _, name := range []string{
			"unshare", "setns", "mount", "umount2", "pivot_root",
			"open_tree", "move_mount", "fsopen", "fsmount", "mount_setattr",
			"bpf", "keyctl", "add_key", "request_key", "init_module", "finit_module",
			"reboot", "kexec_load", "swapon", "acct",
			"perf_event_open", "open_by_handle_at", "io_uring_setup", "userfaultfd",
		} {
			if got := m.call(mode, name); got != rejected|uint32(unix.EPERM) {
				t.Errorf("%s on %s: got %#x, want EPERM", name, mode.Name, got)
			}
		}
		for _, name := range []string{
			"read", "openat", "execve", "futex", "chroot", "ptrace", "sendmsg", "rseq",
		} {
			if got := m.call(mode, name); got != allowed {
				t.Errorf("%s on %s: got %#x, want it allowed", name, mode.Name, got)
			}
		}
	}
}

func TestFilter_RejectsCloneOfNamespaces(t *testing.T) {
	m := newFilterVM(t, everyMode)
	for _, mode := range everyMode {
		for flags, want := range map[uint64]uint32{
			0:                                allowed,
			unix.CLONE_VM | unix.CLONE_VFORK: allowed,
			1 << 40:                          allowed,
			unix.CLONE_NEWUSER:               rejected | uint32(unix.EPERM),
			unix.CLONE_NEWNS | 17:            rejected | uint32(unix.EPERM),
			unix.CLONE_NEWCGROUP:             rejected | uint32(unix.EPERM),
			1<<40 | unix.CLONE_NEWNET:        rejected | uint32(unix.EPERM),
		} {
			if got := m.call(mode, "clone", flags); got != want {
				t.Errorf("clone with %#x on %s: got %#x, want %#x", flags, mode.Name, got, want)
			}
		}
		if got := m.call(mode, "clone3"); got != rejected|uint32(unix.ENOSYS) {
			t.Errorf("clone3 on %s: got %#x, want ENOSYS", mode.Name, got)
		}
	}
}

func TestFilter_AnswersUnknownCallsWithENOSYS(t *testing.T) {
	m := newFilterVM(t, everyMode)
	unknown := rejected | uint32(unix.ENOSYS)
	for _, mode := range everyMode {
		if got := m.answer(mode.ID, 5000); got != unknown {
			t.Errorf("a call newer than the list on %s: got %#x, want ENOSYS", mode.Name, got)
		}
	}
	if got := m.answer(arch.X86_64.ID, 1<<30); got != unknown {
		t.Errorf("read of x32: got %#x, want ENOSYS", got)
	}
	only64 := newFilterVM(t, []*arch.Info{arch.X86_64})
	if got := only64.call(arch.I386, "read"); got != unknown {
		t.Errorf("a call of another architecture: got %#x, want ENOSYS", got)
	}
}

func TestFilter_AllowsTheCallsOfACapability(t *testing.T) {
	m := newFilterVM(t, everyMode, "CAP_SYS_ADMIN")
	for _, name := range []string{"mount", "umount2", "unshare", "setns", "clone3"} {
		if got := m.call(arch.X86_64, name); got != allowed {
			t.Errorf("%s with CAP_SYS_ADMIN: got %#x, want it allowed", name, got)
		}
	}
}

// The compiled list answers as the list reads, for random calls with arguments near the values it names.
func TestFilter_AnswersAsTheListReads(t *testing.T) {
	list := defaultList(t)
	m := newFilterVMOf(t, list, everyMode)
	values := []uint64{0, 1, 1 << 32}
	for _, rule := range list.Syscalls {
		for _, a := range rule.Args {
			values = append(values, a.Value-1, a.Value, a.Value+1, a.Value|1<<32, a.Value<<32)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, mode := range everyMode {
		for name := range mode.SyscallNames {
			for range 3 {
				arg := values[rng.IntN(len(values))]
				want := expectedAnswer(list, mode, name, arg)
				if got := m.call(mode, name, arg); got != want {
					t.Fatalf("%s(%#x) on %s: got %#x, want %#x", name, arg, mode.Name, got, want)
				}
			}
		}
	}
}

// expectedAnswer looks a call up in the list. All arguments that the list compares are the first one.
func expectedAnswer(list *specs.LinuxSeccomp, mode *arch.Info, name string, arg uint64) uint32 {
	newest := 0
	for _, rule := range list.Syscalls {
		for _, n := range rule.Names {
			newest = max(newest, mode.SyscallNames[n])
		}
	}
	if mode.SyscallNames[name] > newest {
		return rejected | uint32(unix.ENOSYS)
	}
	for _, rule := range list.Syscalls {
		if !slices.Contains(rule.Names, name) {
			continue
		}
		matches := true
		for _, a := range rule.Args {
			switch a.Op {
			case specs.OpEqualTo:
				matches = matches && arg == a.Value
			case specs.OpLessThan:
				matches = matches && arg < a.Value
			case specs.OpGreaterThan:
				matches = matches && arg > a.Value
			case specs.OpMaskedEqual:
				matches = matches && arg&a.Value == a.ValueTwo
			}
		}
		if matches && rule.Action == specs.ActAllow {
			return allowed
		}
		if matches {
			return rejected | uint32(*rule.ErrnoRet)
		}
	}
	return rejected | uint32(*list.DefaultErrnoRet)
}

func TestDefault_CompilesForThisMachine(t *testing.T) {
	if err := Supported(); err != nil {
		kit.SkipLacking(t, err.Error())
	}
	f, err := Default(nil)
	if err != nil || len(f) < 200 || len(f) > 500 { // one comparison for each call takes 1,400
		t.Fatalf("the filter has %d instructions, %v", len(f), err)
	}
	if err := (sandbox.Filter{}).Install(); err == nil {
		t.Fatal("Install accepts an empty filter")
	}
}

func TestCompile_RejectsAListItDoesNotUnderstand(t *testing.T) {
	one := uint(1)
	for name, list := range map[string]*specs.LinuxSeccomp{
		"default action": {DefaultAction: specs.ActTrace},
		"action": {
			DefaultAction:   specs.ActErrno,
			DefaultErrnoRet: &one,
			Syscalls: []specs.LinuxSyscall{{
				Names:  []string{"read"},
				Action: specs.ActNotify,
			}},
		},
		"comparison": {
			DefaultAction: specs.ActErrno,
			Syscalls: []specs.LinuxSyscall{{
				Names:  []string{"read"},
				Action: specs.ActAllow,
				Args:   []specs.LinuxSeccompArg{{Op: specs.OpNotEqual}},
			}},
		},
	} {
		if _, err := compile(list, everyMode); err == nil {
			t.Errorf("compile accepts a list with an unknown %s", name)
		}
	}
}

func BenchmarkDefault(b *testing.B) {
	for b.Loop() {
		if _, err := Default(nil); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInstall has the kernel's work at the start of a program: it translates the filter, and runs it for
// each number.
func BenchmarkInstall(b *testing.B) {
	if err := kernelSupports(); err != nil {
		kit.SkipLacking(b, err.Error())
	}
	f, err := Restricted()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cgroups.OnOwnThread(func() {
			err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
			if err == nil {
				err = f.Install()
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func TestSupported_NamesTheSettingInTheWay(t *testing.T) {
	if kernelSupports() != nil {
		kit.SkipLacking(t, "no seccomp filters")
	}
	scope := filepath.Join(t.TempDir(), "scope")
	for text, want := range map[string]bool{"0\n": true, "2\n": true, "3\n": false} {
		if err := os.WriteFile(scope, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := supported(scope, true)
		if got := err == nil; got != want {
			t.Errorf("with %q: got %v (%v), want %v", text, got, err, want)
		}
		if err := supported(scope, false); err != nil {
			t.Errorf("with %q and without cgroup v2: %v", text, err)
		}
	}
	if err := supported(scope+"-of-none", true); err != nil {
		t.Errorf("without Yama: %v", err)
	}
}
