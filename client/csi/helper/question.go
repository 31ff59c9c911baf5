package helper

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// readQuestion is the other side of Start, in the process: it reads the question of a process with a name
// from its standard input, and prints why it cannot. After that the process ends with its input, because
// that ends with the agent, whatever its cause. Such a process has no arguments.
func readQuestion(name string, args []string, q any) (ok bool) {
	if len(args) != 0 {
		fmt.Fprintf(os.Stderr, "%s: expected no arguments\n", name)
		return false
	}

	err := json.NewDecoder(os.Stdin).Decode(q)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: reading the question: %v\n", name, err)
		return false
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return true
}
