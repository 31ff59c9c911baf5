// Package logfile keeps the output of a task in files that stay within bounds, and reads it back.
//
// The layout is the whole contract between writer and reader: in one directory, <task>.<kind>.<n> with
// kind stdout or stderr and n counting up from 0. Only the file with the highest n grows; when it is full
// the next one is made and the oldest ones are removed. Reader and writer need not be in one process.
package logfile

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The kinds of a task's output.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// Name is the file name of part n of a task's output.
func Name(task, kind string, n int) string { return fmt.Sprintf("%s.%s.%d", task, kind, n) }

// parts lists the numbers of the files there are, oldest first. A directory that does not exist has none.
func parts(dir, task, kind string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var ns []int
	prefix := task + "." + kind + "."
	for _, e := range entries {
		tail, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		if n, err := strconv.Atoi(tail); err == nil && n >= 0 && strconv.Itoa(n) == tail {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, nil
}

func path(dir, task, kind string, n int) string { return filepath.Join(dir, Name(task, kind, n)) }
