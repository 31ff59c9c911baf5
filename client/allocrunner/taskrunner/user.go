package taskrunner

import (
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// isDenied reports whether the user of a task is a denied one: by its name, or by its number on this machine.
// A task may give the number, with or without a group, and two names may have one number.
func isDenied(denied []string, wanted string) bool {
	name, _, _ := strings.Cut(wanted, ":")
	if name == "" {
		return false
	}
	id := uidOf(name)
	return slices.ContainsFunc(denied, func(d string) bool {
		return d == name || id != "" && uidOf(d) == id
	})
}

// uidOf returns the number of a user of this machine, or the number that the text is; else "".
func uidOf(name string) string {
	u, err := user.Lookup(name)
	if err == nil {
		return u.Uid
	}
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return ""
	}
	return strconv.FormatUint(n, 10)
}
