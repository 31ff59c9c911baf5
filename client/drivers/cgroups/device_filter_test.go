package cgroups

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

// deviceRequest is the kernel's struct bpf_cgroup_dev_ctx.
type deviceRequest struct {
	kindAndAccess uint32
	major         uint32
	minor         uint32
}

func (r deviceRequest) word(offset int16) (uint64, error) {
	switch offset {
	case 0:
		return uint64(r.kindAndAccess), nil
	case 4:
		return uint64(r.major), nil
	case 8:
		return uint64(r.minor), nil
	}
	return 0, fmt.Errorf("a load from offset %d", offset)
}

// runFilter interprets a program as the kernel does: jumps only go forward, and it ends with a verdict.
func runFilter(program []instruction, r deviceRequest) (bool, error) {
	var registers [11]uint64
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		target := &registers[in.registers&0xf]
		source := registers[in.registers>>4]
		number := uint64(int64(in.constant))
		skip := false
		switch in.code {
		case 0x61: // load a word
			if in.registers>>4 != 1 {
				return false, fmt.Errorf("instruction %d loads from another register", pc)
			}
			word, err := r.word(in.offset)
			if err != nil {
				return false, err
			}
			*target = word
		case 0xbc: // copy a word
			*target = uint64(uint32(source))
		case 0xb4: // set a word
			*target = uint64(uint32(number))
		case 0x74: // shift a word to the right
			*target = uint64(uint32(*target) >> number)
		case 0x54: // mask a word
			*target = uint64(uint32(*target) & uint32(number))
		case 0x55: // jump unless equal
			skip = *target != number
		case 0x45: // jump if a bit is set in both
			skip = *target&number != 0
		case 0x95:
			return registers[0] == 1, nil
		default:
			return false, fmt.Errorf("instruction %d has the unknown code %#x", pc, in.code)
		}
		if skip {
			pc += int(in.offset)
		}
		if skip && in.offset < 0 {
			return false, fmt.Errorf("instruction %d jumps back", pc)
		}
	}
	return false, errors.New("the program has no end")
}

// allows is the meaning of rules.
func allows(rules []DeviceRule, block bool, access int, major, minor uint32) bool {
	for _, r := range rules {
		allowed := 0
		for i, p := range "mrw" { // the bits 1, 2 and 4 of the kernel
			if strings.ContainsRune(r.Permissions, p) {
				allowed |= 1 << i
			}
		}
		if r.Block == block &&
			access&^allowed == 0 &&
			(r.Major == anyNumber || r.Major == int64(major)) &&
			(r.Minor == anyNumber || r.Minor == int64(minor)) {
			return true
		}
	}
	return false
}

func TestDeviceFilter_AllowsTheRequestsOfItsRules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	numbers := []int64{anyNumber, 0, 1, 5, 1<<20 - 1}
	pick := func() int64 { return numbers[random.IntN(len(numbers))] }
	for range 300 {
		var rules []DeviceRule
		for range random.IntN(6) {
			rules = append(rules, DeviceRule{
				Block:       random.IntN(2) == 0,
				Major:       pick(),
				Minor:       pick(),
				Permissions: []string{"r", "w", "m", "rw", "rm", "wm", "rwm"}[random.IntN(7)],
			})
		}
		program := deviceFilter(rules)
		for range 300 {
			block := random.IntN(2) == 0
			access := random.IntN(16) // 8 is an access that no kernel has yet
			kind := uint32(2)
			if block {
				kind = 1
			}
			r := deviceRequest{kind | uint32(access)<<16, uint32(pick()), uint32(pick())}
			got, err := runFilter(program, r)
			if err != nil {
				t.Fatalf("%v: %v", rules, err)
			}
			if want := allows(rules, block, access, r.major, r.minor); got != want {
				t.Fatalf("the rules %v: the request %+v: got %t, want %t", rules, r, got, want)
			}
		}
	}
}

// The verifier of the kernel spreads a program with many rules into many states.
func TestRealFilter_HasTheMostRules(t *testing.T) {
	onEachHierarchy(t, func(t *testing.T, m *Machine) {
		g := makeRealGroup(t, m, Limits{Devices: append(manyRules(maxRules-1), rulesFor(t, "full r")...)})
		if got, want := openedIn(t, g), "full:r"; got != want {
			t.Errorf("the process opened %q, want %q", got, want)
		}
	})
}

// unifiedGroup returns a group of the unified hierarchy, and its open directory.
func unifiedGroup(t *testing.T, rules []DeviceRule) (*Group, int) {
	t.Helper()
	m := &Machine{V2: unifiedHierarchy(t), Missing: map[string]string{}}
	if m.V2 == "" {
		kit.SkipLacking(t, "the unified hierarchy of control groups")
	}
	skipUnlessRestricting(t, m)
	g := makeRealGroup(t, m, Limits{Devices: rules})
	dir, err := unix.Open(g.V2, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(dir) })
	return g, dir
}

// A change leaves the new filter alone, also after a crash between its attachment and the end of the old one.
func TestRealFilter_IsAloneAfterAChange(t *testing.T) {
	g, dir := unifiedGroup(t, rulesFor(t, "null rw"))
	nothing, err := loadFilter(deviceFilter(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(attachFilter(dir, nothing), unix.Close(nothing))
	if err != nil {
		t.Fatal(err)
	}
	if got := openedIn(t, g); got != "" {
		t.Errorf("behind a filter without rules the process opened %q", got)
	}
	if err := g.RestrictDevices(rulesFor(t, "full r", "null w")); err != nil {
		t.Fatal(err)
	}
	if ids, err := attachedFilters(dir); err != nil || len(ids) != 1 {
		t.Errorf("the group has the filters %v, %v, want one", ids, err)
	}
	if got, want := openedIn(t, g), "full:r"; got != want {
		t.Errorf("the process opened %q, want %q", got, want)
	}
}

// A filter that the kernel rejects leaves the former one.
func TestRealFilter_StaysWhenAChangeFails(t *testing.T) {
	g, _ := unifiedGroup(t, rulesFor(t, "full r"))
	if err := g.RestrictDevices(manyRules(maxRules + 1)); err == nil {
		t.Error("more rules than the bound are accepted")
	}
	if got, want := openedIn(t, g), "full:r"; got != want {
		t.Errorf("the process opened %q, want %q", got, want)
	}
}

// A task with the right to load programs can add filters to groups that it makes. They open nothing more.
func TestRealFilter_HoldsInGroupsBelow(t *testing.T) {
	g, _ := unifiedGroup(t, rulesFor(t, "full r", "null r"))
	below := &Group{V2: g.V2 + "/below"}
	if err := os.Mkdir(below.V2, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := below.RestrictDevices(rulesFor(t, "full rw", "zero rw")); err != nil {
		t.Fatal(err)
	}
	if got, want := openedIn(t, below), "full:r"; got != want {
		t.Errorf("the process opened %q, want %q", got, want)
	}
}

func TestRealFilter_LeavesNoDescriptor(t *testing.T) {
	g, _ := unifiedGroup(t, rulesFor(t, "null rw"))
	for range 3 {
		if err := g.RestrictDevices(rulesFor(t, "full r")); err != nil {
			t.Fatal(err)
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for _, fd := range open {
		file, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if file == g.V2 {
			groups++
		}
		if strings.Contains(file, "bpf") {
			t.Errorf("the descriptor %s of %s is open", fd.Name(), file)
		}
	}
	if groups != 1 {
		t.Errorf("%d descriptors of the group are open, want the one of this test", groups)
	}
}

// A signal interrupts the kernel while it verifies a filter. Go sends SIGURG to its threads at any time.
func TestLoadFilter_SurvivesSignals(t *testing.T) {
	unifiedGroup(t, rulesFor(t, "null rw")) // skips the test where no filter can be loaded
	program := deviceFilter(manyRules(50))
	loads := make(chan int)
	go OnOwnThread(func() {
		defer close(loads)
		for range 60 {
			loads <- unix.Gettid()
			filter, err := loadFilter(program)
			if err != nil {
				t.Errorf("loading a filter during a signal: %v", err)
				continue
			}
			_ = unix.Close(filter)
		}
	})
	for tid := range loads {
		if err := unix.Tgkill(os.Getpid(), tid, unix.SIGURG); err != nil {
			t.Error(err)
		}
	}
}

func TestExplainBPF_NamesTheRemedy(t *testing.T) {
	for errno, want := range map[unix.Errno]string{
		unix.EINVAL: "a kernel with CONFIG_CGROUP_BPF",
		unix.ENOSYS: "CONFIG_BPF_SYSCALL",
		unix.EPERM:  "CAP_SYS_ADMIN",
		unix.EBADF:  "no cgroup v2",
		unix.E2BIG:  "argument list too long",
	} {
		err := explainBPF(errno)
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}
