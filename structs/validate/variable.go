package validate

import (
	"strings"
	"time"

	"berth/structs"
	"berth/structs/access"
)

// The paths that belong to berth are below reservedVariables. Of these, users write those below
// openVariables.
const reservedVariables = "nomad"

var openVariables = []string{"nomad/jobs", "nomad/volumes", "nomad/job-templates"}

// VariablePath checks the path of a variable. The error is invalid.
func VariablePath(path string) error {
	shown := structs.Cut(path, structs.MaxQuoted)
	switch {
	case path == "" || len(path) > structs.MaxVariablePath:
		return structs.Invalidf("the path of a variable has %d bytes; expected 1 to %d",
			len(path), structs.MaxVariablePath)
	case strings.ContainsFunc(path, func(c rune) bool { return !inVariablePath(c) }):
		return structs.Invalidf("the path of the variable is %q; expected letters, digits, -, _, ~ and /",
			shown)
	case path[0] == '/' || path[len(path)-1] == '/' || strings.Contains(path, "//"):
		return structs.Invalidf("the path of the variable is %q; expected names with one / between them",
			shown)
	case isVariableWithin(path, reservedVariables):
		for _, open := range openVariables {
			if isVariableWithin(path, open) {
				return nil
			}
		}

		return structs.Invalidf("the path of the variable is %q; below %s are only %s",
			shown, reservedVariables, strings.Join(openVariables, ", "))
	}

	return nil
}

// inVariablePath reports whether a path may have a character, which no HTTP client has to escape.
func inVariablePath(c rune) bool {
	isWord := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	return isWord || strings.ContainsRune("-_~/", c)
}

// isVariableWithin reports whether a path is another one or below it.
func isVariableWithin(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+"/")
}

// VariableItems checks the items of a variable. The error is invalid and shows no value.
func VariableItems(items access.VariableItems) error {
	size := structs.PairBytes(items)
	_, unnamed := items[""]
	switch {
	case len(items) > structs.MaxVariableItems:
		return structs.Invalidf("the variable has %d items; at most %d are allowed",
			len(items), structs.MaxVariableItems)
	case size > structs.MaxVariableBytes:
		return structs.Invalidf("the names and values of the variable's items have %d bytes; "+
			"at most %d are allowed", size, structs.MaxVariableBytes)
	case unnamed:
		return structs.Invalidf("an item of the variable has no name")
	}

	return nil
}

// defaultLockTime is the TTL and the delay of a lock that names none.
const defaultLockTime = 15 * time.Second

// NewVariableLock returns the times of a lock to take, with defaults for zeros. The error is
// invalid.
func NewVariableLock(asked *access.VariableLock) (*access.VariableLock, error) {
	lock := &access.VariableLock{TTL: defaultLockTime, LockDelay: defaultLockTime}
	if asked == nil {
		return lock, nil
	}

	for _, d := range []struct {
		name  string
		asked time.Duration
		field *time.Duration
	}{
		{"TTL", asked.TTL, &lock.TTL},
		{"LockDelay", asked.LockDelay, &lock.LockDelay},
	} {
		if d.asked == 0 {
			continue
		}

		if d.asked < structs.MinLockTime || d.asked > structs.MaxLockTime {
			return nil, structs.Invalidf("the %s of the lock is %s; expected %s to %s",
				d.name, d.asked, structs.MinLockTime, structs.MaxLockTime)
		}

		*d.field = d.asked
	}

	return lock, nil
}
