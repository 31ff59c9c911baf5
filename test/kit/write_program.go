package kit

import (
	"os"
	"syscall"
)

// WriteProgram writes a program while this process forks nothing. A copy of the process would have the file
// open for writing until it becomes another program, and the kernel executes no such file. Tests that run
// programs beside each other write them with it.
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o755)
}
