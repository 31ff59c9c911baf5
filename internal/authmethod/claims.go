package authmethod

import (
	"math"
	"strconv"
	"strings"

	"berth/structs"
	"berth/structs/access"
)

// The bounds on the values of claims.
const (
	maxValue  = 1024 // bytes of a value
	maxValues = 1000 // of a list
	// exactFloat is the largest number of JSON that its decoded form surely equals.
	exactFloat = 1 << 53
)

// Claims are the values of a login, as selectors and names see them.
type Claims struct {
	Value map[string]string   `bexpr:"value"`
	List  map[string][]string `bexpr:"list"`
}

// MapClaims copies claims by the mappings of a method. A claim that is not there has no value. The error is
// denied if a claim is no text, number or truth value, or exceeds a bound.
func MapClaims(c *access.AuthConfig, claims map[string]any) (*Claims, error) {
	mapped := &Claims{
		Value: map[string]string{},
		List:  map[string][]string{},
	}
	for claim, name := range c.ClaimMappings {
		raw, ok := find(claims, claim)
		if !ok {
			continue
		}
		text, err := textOf(claim, raw)
		if err != nil {
			return nil, err
		}
		mapped.Value[name] = text
	}

	for claim, name := range c.ListClaimMappings {
		raw, ok := find(claims, claim)
		if !ok {
			continue
		}
		list, err := listOf(claim, raw)
		if err != nil {
			return nil, err
		}
		mapped.List[name] = list
	}
	return mapped, nil
}

// find returns the claim with a name, or at a JSON pointer such as /groups/0. A name comes first: a claim may
// begin with a slash.
func find(claims map[string]any, name string) (any, bool) {
	v, ok := claims[name]
	if ok || !strings.HasPrefix(name, "/") {
		return v, ok && v != nil
	}

	v = claims
	for _, part := range strings.Split(name[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch in := v.(type) {
		case map[string]any:
			v = in[part]
		case []any:
			i, err := strconv.ParseUint(part, 10, 16)
			if err != nil || i >= uint64(len(in)) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}

func textOf(claim string, raw any) (string, error) {
	text := ""
	switch v := raw.(type) {
	case string:
		text = v
	case bool:
		text = strconv.FormatBool(v)
	case float64:
		if math.Abs(v) > exactFloat {
			return "", structs.Deniedf("the claim %q is a number above 2^53, which berth may not read exactly; "+
				"let the issuer send it as a text", shown(claim))
		}
		text = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return "", structs.Deniedf("the claim %q is a list or an object; expected a text, a number or a truth "+
			"value: use ListClaimMappings for a list", shown(claim))
	}

	if len(text) > maxValue {
		return "", structs.Deniedf("the claim %q has a value of %d bytes; expected at most %d",
			shown(claim), len(text),
			maxValue)
	}
	return text, nil
}

// listOf returns a list. A single value is a list with one entry.
func listOf(claim string, raw any) ([]string, error) {
	entries, ok := raw.([]any)
	if !ok {
		entries = []any{raw}
	}
	if len(entries) > maxValues {
		return nil, structs.Deniedf("the claim %q has %d entries; expected at most %d", shown(claim),
			len(entries),
			maxValues)
	}

	list := make([]string, 0, len(entries))
	for _, e := range entries {
		text, err := textOf(claim, e)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, nil
}

func shown(claim string) string { return structs.Cut(claim, structs.MaxQuoted) }
