package main

import (
	"math"
	"strconv"
	"strings"

	"berth/bench/peer/result"
)

// number is three digits of a number, or all of a whole one: 0.531, 18.9, 639, 1,049.
func number(n float64) string {
	digits := 0
	if n != 0 {
		digits = max(0, 2-int(math.Floor(math.Log10(math.Abs(n)))))
	}
	s := strconv.FormatFloat(n, 'f', min(digits, 3), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return thousandsIn(s)
}

func thousands(n float64) string {
	return thousandsIn(strconv.FormatFloat(n, 'f', 0, 64))
}

// thousandsIn puts commas into a number's text.
func thousandsIn(s string) string {
	whole, rest, broken := strings.Cut(s, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if broken {
		return whole + "." + rest
	}
	return whole
}

func times(ratio float64) string { return number(ratio) + "x" }

// bare is a number without a unit; nothing for none.
func bare(n float64) string {
	if n == 0 {
		return "-"
	}
	return number(n)
}

// amount is a row's number in its unit.
func amount(n float64, r result.Row) string {
	if n == 0 {
		return "-"
	}
	return unit(n*r.Scale, r.Unit)
}

// unit writes microseconds from ten thousand on as milliseconds.
func unit(n float64, of string) string {
	switch {
	case of == "us" && n >= 10000:
		return number(n/1000) + " ms"
	case of == "us":
		return number(n) + " µs"
	case of == "/s":
		return number(n) + "/s"
	}
	return strings.TrimSpace(number(n) + " " + of)
}
