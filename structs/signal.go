package structs

import (
	"slices"
	"strings"
)

// SignalName returns the name of a signal as drivers know it, for example SIGQUIT for quit, QUIT and SIGQUIT.
// It returns "" for "".
func SignalName(written string) string {
	if written == "" {
		return ""
	}
	return "SIG" + strings.TrimPrefix(strings.ToUpper(written), "SIG")
}

// ParseSignal returns the name of a signal as drivers know it. The error is invalid for any other name.
func ParseSignal(written string) (string, error) {
	if !IsSignal(written) {
		return "", Invalidf("%q is not a signal such as SIGHUP", Cut(written, MaxQuoted))
	}
	return SignalName(written), nil
}

// IsSignal reports whether a text is the name of a signal in any of its forms.
func IsSignal(written string) bool { return slices.Contains(signals, SignalName(written)) }

var signals = []string{
	"SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE",
	"SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT",
	"SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU",
	"SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS",
}
