package cgroups

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file restricts the devices of a group of the unified hierarchy, which has no control file for them.
// The kernel runs a program of the group, an eBPF program, at each open and mknod of a device file.

// instruction is the kernel's struct bpf_insn on a little-endian machine.
type instruction struct {
	code      uint8
	registers uint8 // the one that is written or compared in the low four bits, a source in the high ones
	offset    int16 // of a jump, the instructions to skip; of a load, the place in the request
	constant  int32
}

// The registers of a filter. The kernel sets request before the program starts, and reads verdict after it.
const (
	verdict = iota // 1 allows the request, 0 rejects it
	request        // points to a struct bpf_cgroup_dev_ctx
	kind
	access
	major
	minor
)

// The operations of a filter. All but the jumps set the upper half of a register to zero.
const (
	loadWord   = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W
	copyWord   = unix.BPF_ALU | unix.BPF_MOV | unix.BPF_X
	setWord    = unix.BPF_ALU | unix.BPF_MOV | unix.BPF_K
	shiftRight = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
	mask       = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	skipUnless = unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K  // unless the register equals the constant
	skipIfAny  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K // if they have a bit in common
	exit       = unix.BPF_JMP | unix.BPF_EXIT
)

// deviceFilter returns the program that allows a request if a rule has all that it asks for. It first spreads
// the request over the registers. Then each rule skips to the next one if it does not match.
func deviceFilter(rules []DeviceRule) []instruction {
	program := []instruction{
		{code: loadWord, registers: kind | request<<4, offset: 0},
		// The kernel passes the access in the upper half of the first word, and the kind in the lower one.
		{code: copyWord, registers: access | kind<<4},
		{code: mask, registers: kind, constant: 0xffff},
		{code: shiftRight, registers: access, constant: 16},
		{code: loadWord, registers: major | request<<4, offset: 4},
		{code: loadWord, registers: minor | request<<4, offset: 8},
		{code: setWord, registers: verdict, constant: 1},
	}

	for _, rule := range rules {
		checks := rule.checks()
		for i := range checks {
			checks[i].offset = int16(len(checks) - i) // over the other checks and the exit
		}

		program = append(program, checks...)
		program = append(program, instruction{code: exit})
	}
	return append(program,
		instruction{code: setWord, registers: verdict, constant: 0},
		instruction{code: exit},
	)
}

// checks are the conditions of a rule, each an instruction that jumps if it does not hold.
func (r DeviceRule) checks() []instruction {
	wantedKind := int32(unix.BPF_DEVCG_DEV_CHAR)
	if r.Block {
		wantedKind = unix.BPF_DEVCG_DEV_BLOCK
	}

	allowed := int32(0)
	for _, p := range r.Permissions {
		allowed |= accessBits[p]
	}

	checks := []instruction{
		{code: skipUnless, registers: kind, constant: wantedKind},
		// The request must ask for nothing beyond the rule.
		{code: skipIfAny, registers: access, constant: ^allowed},
	}
	if r.Major != anyNumber {
		checks = append(checks, instruction{code: skipUnless, registers: major, constant: int32(r.Major)})
	}

	if r.Minor != anyNumber {
		checks = append(checks, instruction{code: skipUnless, registers: minor, constant: int32(r.Minor)})
	}

	return checks
}

// accessBits are the letters of a rule in the words of the kernel.
var accessBits = map[rune]int32{
	'r': unix.BPF_DEVCG_ACC_READ,
	'w': unix.BPF_DEVCG_ACC_WRITE,
	'm': unix.BPF_DEVCG_ACC_MKNOD,
}

// restrictUnified replaces the filter of a group. A request must pass all filters of the group. So the group
// has the old and the new filter for a moment, but never none. A crash between the two leaves both, and the
// next call replaces both. The kernel frees the filter with the group.
func restrictUnified(dir string, rules []DeviceRule) error {
	group, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(group)

	old, err := attachedFilters(group)
	if err != nil {
		return fmt.Errorf("listing the device filters: %w", err)
	}

	filter, err := loadFilter(deviceFilter(rules))
	if err != nil {
		return fmt.Errorf("loading the device filter: %w", err)
	}
	defer unix.Close(filter)

	err = attachFilter(group, filter)
	if err != nil {
		return fmt.Errorf("attaching the device filter: %w", err)
	}

	for _, id := range old {
		if err := detachFilter(group, id); err != nil {
			return fmt.Errorf("detaching the former device filter: %w", err)
		}
	}

	return nil
}

// filterName is the name of the program in the lists of the machine's administrator (bpftool).
const filterName = "berth_devices"

// loadFilter hands a program to the kernel, which verifies that it ends and reads only its request. It
// returns a descriptor. Kernels before 5.11 count the program as locked memory of the user; entering a group
// of the unified hierarchy needs a later one anyway (see openUnified).
func loadFilter(program []instruction) (int, error) {
	license := []byte("Apache-2.0\x00")
	var pinned runtime.Pinner // the kernel gets the addresses as numbers
	defer pinned.Unpin()
	pinned.Pin(&program[0])
	pinned.Pin(&license[0])
	attributes := struct {
		kind, count      uint32
		program, license uint64
		_                [3]uint64 // the verifier's log, the version of the kernel, flags
		name             [unix.BPF_OBJ_NAME_LEN]byte
	}{
		kind:    unix.BPF_PROG_TYPE_CGROUP_DEVICE,
		count:   uint32(len(program)),
		program: uint64(uintptr(unsafe.Pointer(&program[0]))),
		license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}

	copy(attributes.name[:], filterName)
	return bpf(unix.BPF_PROG_LOAD, unsafe.Pointer(&attributes), unsafe.Sizeof(attributes))
}

// maxAttached is the kernel's bound on the programs of one kind of a group.
const maxAttached = 64

// attachedFilters returns the IDs of the filters that a group has itself, without its parents' ones.
func attachedFilters(group int) ([]uint32, error) {
	ids := make([]uint32, maxAttached)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&ids[0])
	attributes := struct {
		group, event, queryFlags, attachFlags uint32

		ids   uint64
		count uint32
		_     uint32
		_     [4]uint64 // kernels from 6.17 on write the last field, whether or not it is there
	}{
		group: uint32(group),
		event: unix.BPF_CGROUP_DEVICE,
		ids:   uint64(uintptr(unsafe.Pointer(&ids[0]))),
		// More cannot be attached, so the list is whole.
		count: maxAttached,
	}

	_, err := bpf(unix.BPF_PROG_QUERY, unsafe.Pointer(&attributes), unsafe.Sizeof(attributes))
	if err != nil {
		return nil, err
	}

	return ids[:attributes.count], nil
}

// attachment is the part of the kernel's union bpf_attr that attaches and detaches a program.
type attachment struct {
	group, filter, event, flags uint32
}

// attachFilter adds a filter to a group. BPF_F_ALLOW_MULTI keeps the others in force, and lets groups below
// add their own, which can only reject more.
func attachFilter(group, filter int) error {
	attributes := attachment{
		group:  uint32(group),
		filter: uint32(filter),
		event:  unix.BPF_CGROUP_DEVICE,
		flags:  unix.BPF_F_ALLOW_MULTI,
	}
	_, err := bpf(unix.BPF_PROG_ATTACH, unsafe.Pointer(&attributes), unsafe.Sizeof(attributes))
	return err
}

// detachFilter takes a filter off a group. The kernel wants an open filter, and gives one for an ID.
func detachFilter(group int, id uint32) error {
	filter, err := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&id), unsafe.Sizeof(id))
	if err != nil {
		return err
	}
	defer unix.Close(filter)
	attributes := attachment{
		group:  uint32(group),
		filter: uint32(filter),
		event:  unix.BPF_CGROUP_DEVICE,
	}
	_, err = bpf(unix.BPF_PROG_DETACH, unsafe.Pointer(&attributes), unsafe.Sizeof(attributes))
	return err
}

// bpfAttempts bounds the repetitions of a call that signals interrupt.
const bpfAttempts = 32

// bpf makes the system call. A signal interrupts the verification of a program with EAGAIN. A returned
// descriptor is closed on exec.
func bpf(command uintptr, attributes unsafe.Pointer, size uintptr) (int, error) {
	errno := unix.EAGAIN
	for range bpfAttempts {
		var result uintptr
		result, _, errno = unix.Syscall(unix.SYS_BPF, command, uintptr(attributes), size)
		if errno == 0 {
			return int(result), nil
		}
		if errno != unix.EAGAIN {
			break
		}
	}
	return -1, explainBPF(errno)
}

// explainBPF adds the cause and the remedy to an error of the system call, as far as it tells one.
func explainBPF(err error) error {
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: cgroup v2 needs a kernel with CONFIG_CGROUP_BPF and CONFIG_BPF_SYSCALL", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: cgroup v2 needs an agent with CAP_SYS_ADMIN outside of user namespaces, "+
			"in a container also without a filter of the bpf system call", err)
	case errors.Is(err, unix.EBADF):
		return fmt.Errorf("%w: the directory is no cgroup v2", err)
	}
	return err
}
