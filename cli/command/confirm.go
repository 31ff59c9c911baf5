package command

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"berth/structs"
)

// Confirm asks whether to do something. Only a terminal is asked: skip is the option for a call without one.
func Confirm(c *Call, question, skip string) error {
	f, isFile := c.In.(*os.File)
	if isFile && !term.IsTerminal(int(f.Fd())) {
		return BadUsage("the input is no terminal: set %s to go on without a question", skip)
	}

	c.Printf("%s? Type yes: ", question)
	typed, err := bufio.NewReader(io.LimitReader(c.In, structs.MaxName)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return structs.Internalf("reading the answer: %w", err)
	}

	if strings.TrimSpace(typed) != "yes" {
		return structs.Preconditionf("the answer is not yes: nothing is changed")
	}
	return nil
}
