package template

import (
	"reflect"
	"strconv"

	"berth/internal/gotext"
	"berth/structs"
)

// numberFunctions are the functions by their names. The first argument of an operation is the second operand,
// so that a pipe passes the first one.
var numberFunctions = gotext.Functions{
	"add":      calculate(sum, sum),
	"subtract": calculate(difference, difference),
	"multiply": calculate(product, product),
	"divide":   byNoZero(calculate(quotient, quotient)),
	"modulo":   byNoZero(calculate(func(a, b int64) int64 { return a % b }, nil)),
	"minimum":  calculate(smaller, smaller),
	"maximum":  calculate(larger, larger),

	"parseBool":  parseText(strconv.ParseBool),
	"parseFloat": parseText(func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }),
	"parseInt":   parseText(func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }),
	"parseUint":  parseText(func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }),
}

// calculate returns an operation on two numbers: on whole ones if both are.
func calculate(
	whole func(a, b int64) int64, broken func(a, b float64) float64,
) func(b, a any) (any, error) {
	return func(b, a any) (any, error) {
		x, isNumber := numberOf(a)
		y, alsoNumber := numberOf(b)
		switch {
		case !isNumber || !alsoNumber:
		case x.whole && y.whole:
			return whole(x.n, y.n), nil
		case broken != nil:
			return broken(x.f, y.f), nil
		}
		return nil, structs.Invalidf("the operation does not take %T and %T", a, b)
	}
}

// byNoZero returns a division that rejects two whole numbers if the second one is zero.
func byNoZero(f func(b, a any) (any, error)) func(b, a any) (any, error) {
	return func(b, a any) (any, error) {
		x, _ := numberOf(a)
		y, _ := numberOf(b)
		if x.whole && y.whole && y.n == 0 {
			return nil, structs.Invalidf("integer divide by zero")
		}
		return f(b, a)
	}
}

// number is a number as a fraction, and if it is whole also as an integer.
type number struct {
	whole bool
	n     int64
	f     float64
}

func numberOf(v any) (number, bool) {
	x := reflect.ValueOf(v)
	switch {
	case x.CanInt():
		return number{true, x.Int(), float64(x.Int())}, true
	case x.CanUint():
		return number{true, int64(x.Uint()), float64(x.Uint())}, true
	case x.CanFloat():
		return number{f: x.Float()}, true
	}
	return number{}, false
}

// parseText returns a function that reads a value from its text. The empty text is the zero value.
func parseText[T any](read func(string) (T, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		if s == "" {
			return *new(T), nil
		}
		return read(s)
	}
}

type numeric interface{ int64 | float64 }

func sum[T numeric](a, b T) T        { return a + b }
func difference[T numeric](a, b T) T { return a - b }
func product[T numeric](a, b T) T    { return a * b }
func quotient[T numeric](a, b T) T   { return a / b }
func smaller[T numeric](a, b T) T    { return min(a, b) }
func larger[T numeric](a, b T) T     { return max(a, b) }
