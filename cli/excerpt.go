package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"berth/structs"
)

// excerptWidth bounds the characters of a line in an excerpt.
const excerptWidth = 100

// excerpt adds an excerpt below each fault with a position: the line, and a caret under the column.
func excerpt(name string, src []byte, err error) error {
	if err == nil || !structs.IsKind(err, structs.KindInvalid) {
		return err
	}
	position := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `:(\d+),(\d+)`)
	source := strings.Split(string(src), "\n")
	var out []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		out = append(out, line)
		m := position.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		number, _ := strconv.Atoi(m[1]) // it is the largest int for a number that is too large
		column, _ := strconv.Atoi(m[2])
		if number >= 1 && number <= len(source) && column >= 1 {
			out = append(out, pointAt(source[number-1], number, column)...)
		}
	}
	return structs.Invalidf("%s", strings.Join(out, "\n"))
}

// pointAt returns a line of a file and a line with a caret under a column, which counts from 1.
func pointAt(text string, number, column int) []string {
	runes := []rune(strings.TrimRight(text, "\r"))
	for i, r := range runes {
		if unicode.IsControl(r) { // a tab is one column, and a terminal would execute others
			runes[i] = ' '
		}
	}
	column = min(column, len(runes)+1)
	from := max(0, column-excerptWidth/2)
	if len(runes) > excerptWidth {
		runes = runes[from:min(len(runes), from+excerptWidth)]
		column -= from
	}
	gutter := fmt.Sprintf("  %d | ", number)
	margin := strings.Repeat(" ", len(gutter)-2)
	indent := strings.Repeat(" ", column-1)
	return []string{
		gutter + string(runes),
		margin + "| " + indent + "^",
	}
}
