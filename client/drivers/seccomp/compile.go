package seccomp

import (
	"fmt"
	"slices"

	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The offsets in struct seccomp_data of linux/seccomp.h. Both architectures are little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// compile renders the list as one program that selects the mode, then compares the call's number.
func compile(list *specs.LinuxSeccomp, modes []*arch.Info) ([]bpf.Instruction, error) {
	prog := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
	}
	for _, mode := range modes {
		body, err := compileMode(list, mode)
		if err != nil {
			return nil, err
		}
		prog = append(prog,
			jump(bpf.JumpEqual, uint32(mode.ID), 1),
			bpf.Jump{Skip: uint32(len(body))}) // a conditional jump skips at most 255 instructions
		prog = append(prog, body...)
	}
	return append(prog,
		// This is reached by calls of all other modes.
		returnAction(unix.SECCOMP_RET_ERRNO, unix.ENOSYS)), nil
}

// jump skips instructions if the condition holds for the accumulator.
func jump(condition bpf.JumpTest, value uint32, skip uint8) bpf.Instruction {
	return bpf.JumpIf{
		Cond:     condition,
		Val:      value,
		SkipTrue: skip,
	}
}

// returnAction ends a filter. The lower half of the value is the error that the call returns.
func returnAction(action uint32, errno unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: action | uint32(errno)&unix.SECCOMP_RET_DATA}
}

// compileMode renders the rules for one table of numbers. The first rule that matches decides. The numbers of
// calls that are allowed with any arguments come first, as ranges: the kernel runs the filter for every
// number when a thread installs it.
func compileMode(list *specs.LinuxSeccomp, mode *arch.Info) ([]bpf.Instruction, error) {
	rules, newest, err := compileRules(list, mode)
	if err != nil {
		return nil, err
	}

	fallback, err := verdictOf(list.DefaultAction, list.DefaultErrnoRet)
	if err != nil {
		return nil, err
	}

	// The list says nothing of the calls above its newest one, so these are not EPERM but ENOSYS.
	head := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		jump(bpf.JumpLessOrEqual, uint32(newest), 1), // x32 calls are above 2^30
		returnAction(unix.SECCOMP_RET_ERRNO, unix.ENOSYS),
	}

	return append(append(head, rules...), fallback), nil
}

// compileRules renders the rules, and returns the highest number that the list has.
func compileRules(
	list *specs.LinuxSeccomp, mode *arch.Info,
) (rules []bpf.Instruction, newest int, err error) {
	always := alwaysAllowed(list, mode)
	rules = compileRanges(always)
	for _, rule := range list.Syscalls {
		verdict, err := verdictOf(rule.Action, rule.ErrnoRet)
		if err != nil {
			return nil, 0, err
		}

		for _, name := range rule.Names {
			number, known := mode.SyscallNames[name]
			if !known { // of another machine
				continue
			}

			newest = max(newest, number)

			// Its first rule has allowed it, so no later rule decides.
			if slices.Contains(always, uint32(number)) {
				continue
			}

			block, err := compileRule(uint32(number), rule.Args, verdict)
			if err != nil {
				return nil, 0, fmt.Errorf("system call %s: %w", name, err)
			}

			rules = append(rules, block...)
		}
	}

	return rules, newest, nil
}

// alwaysAllowed returns the numbers of the calls whose first rule allows them with any arguments, in order.
func alwaysAllowed(list *specs.LinuxSeccomp, mode *arch.Info) []uint32 {
	var always []uint32
	seen := map[int]bool{}
	for _, rule := range list.Syscalls {
		for _, name := range rule.Names {
			number, known := mode.SyscallNames[name]
			if !known || seen[number] {
				continue
			}
			seen[number] = true
			if rule.Action == specs.ActAllow && len(rule.Args) == 0 {
				always = append(always, uint32(number))
			}
		}
	}
	slices.Sort(always)
	return always
}

// compileRanges allows numbers, which are in order. The accumulator holds the number before and after it.
func compileRanges(numbers []uint32) []bpf.Instruction {
	var prog []bpf.Instruction
	for len(numbers) > 0 {
		n := 1
		for n < len(numbers) && numbers[n] == numbers[n-1]+1 {
			n++
		}
		prog = append(prog,
			jump(bpf.JumpLessThan, numbers[0], 2),
			jump(bpf.JumpGreaterThan, numbers[n-1], 1),
			returnAction(unix.SECCOMP_RET_ALLOW, 0))
		numbers = numbers[n:]
	}
	return prog
}

// verdictOf returns the end of a filter for an action of the list. An error without a number is EPERM.
func verdictOf(action specs.LinuxSeccompAction, errno *uint) (bpf.Instruction, error) {
	switch {
	case action == specs.ActAllow:
		return returnAction(unix.SECCOMP_RET_ALLOW, 0), nil
	case action == specs.ActErrno && errno != nil:
		return returnAction(unix.SECCOMP_RET_ERRNO, unix.Errno(*errno)), nil
	case action == specs.ActErrno:
		return returnAction(unix.SECCOMP_RET_ERRNO, unix.EPERM), nil
	}
	return nil, fmt.Errorf("the list of system calls has the unknown action %s", action)
}

// compileRule renders one rule. The accumulator holds the number before and after it.
func compileRule(
	number uint32, args []specs.LinuxSeccompArg, verdict bpf.Instruction,
) ([]bpf.Instruction, error) {
	if len(args) == 0 {
		skip := jump(bpf.JumpNotEqual, number, 1)
		return []bpf.Instruction{skip, verdict}, nil
	}

	// The arguments overwrite the number, which the next rule needs again.
	tail := []bpf.Instruction{
		verdict,
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	for _, arg := range slices.Backward(args) { // a test needs the number of instructions after it
		rest := len(tail) - 1
		test, err := compileArg(arg, uint8(rest))
		if err != nil {
			return nil, err
		}

		tail = append(test, tail...)
	}

	return slices.Insert(tail, 0, jump(bpf.JumpNotEqual, number, uint8(len(tail)))), nil
}

// compileArg renders the test of one 64-bit argument. On failure it jumps over the rest instructions that
// follow the test.
func compileArg(a specs.LinuxSeccompArg, rest uint8) ([]bpf.Instruction, error) {
	// A filter compares words of 32 bits, and an argument has two of them, the low one first in memory.
	low := bpf.LoadAbsolute{
		Off:  offArgs + 8*uint32(a.Index),
		Size: 4,
	}
	high := bpf.LoadAbsolute{Off: low.Off + 4, Size: 4}
	lowValue := uint32(a.Value)
	highValue := uint32(a.Value >> 32)

	// ordered compares the high words, and the low words if the high words are equal. High words that differ
	// and do not fail decide: the jump over the two instructions leads to what follows the test.
	ordered := func(highFails, lowFails bpf.JumpTest) []bpf.Instruction {
		return []bpf.Instruction{
			high,
			jump(highFails, highValue, rest+3),
			jump(bpf.JumpNotEqual, highValue, 2),
			low,
			jump(lowFails, lowValue, rest),
		}
	}

	switch a.Op {
	case specs.OpEqualTo:
		return []bpf.Instruction{
			high,
			jump(bpf.JumpNotEqual, highValue, rest+2),
			low,
			jump(bpf.JumpNotEqual, lowValue, rest),
		}, nil

	case specs.OpLessThan:
		return ordered(bpf.JumpGreaterThan, bpf.JumpGreaterOrEqual), nil
	case specs.OpGreaterThan:
		return ordered(bpf.JumpLessThan, bpf.JumpLessOrEqual), nil
	case specs.OpMaskedEqual: // Value is the mask
		return []bpf.Instruction{
			high,
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: highValue},
			jump(bpf.JumpNotEqual, uint32(a.ValueTwo>>32), rest+3),
			low,
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: lowValue},
			jump(bpf.JumpNotEqual, uint32(a.ValueTwo), rest),
		}, nil
	}

	// An update of the list may bring one. An error is better than a rule that allows too much.
	return nil, fmt.Errorf("the list of system calls has the unknown comparison %s", a.Op)
}
