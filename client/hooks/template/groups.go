package template

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"berth/consul/lookup"
	"berth/internal/gotext"
	"berth/structs"
)

// groupFunctions group the answers of others.
var groupFunctions = gotext.Functions{
	"byKey":   byKey,
	"byMeta":  byMeta,
	"byTag":   byTag,
	"explode": explode,
}

// byTag returns services or instances by their tags.
func byTag(list any) (map[string][]any, error) {
	groups := map[string][]any{}
	add := func(v any, tags []string) {
		for _, tag := range tags {
			groups[tag] = append(groups[tag], v)
		}
	}

	switch list := list.(type) {
	case nil:
	case []*lookup.Service:
		for _, s := range list {
			add(s, s.Tags)
		}
	case []*lookup.ServiceName:
		for _, s := range list {
			add(s, s.Tags)
		}
	case []*lookup.Instance:
		for _, s := range list {
			add(s, s.Tags)
		}
	default:
		return nil, structs.Invalidf("byTag: %T is not a list of services", list)
	}

	return groups, nil
}

// byKey returns keys by the first part of their paths, and then by the rest.
func byKey(pairs []*lookup.KeyPair) (map[string]map[string]*lookup.KeyPair, error) {
	groups := map[string]map[string]*lookup.KeyPair{}
	for _, pair := range pairs {
		first, rest, _ := strings.Cut(pair.Key, "/")
		if rest == "" {
			continue
		}
		if groups[first] == nil {
			groups[first] = map[string]*lookup.KeyPair{}
		}
		// All texts that ask share the answer, so its pairs stay as they are.
		below := *pair
		below.Key = rest
		groups[first][rest] = &below
	}
	return groups, nil
}

// byMeta returns instances by the values of entries of their meta, whose names are joined by commas. A name
// with the suffix |int stands for a number.
func byMeta(names string, list []*lookup.Service) (map[string][]*lookup.Service, error) {
	groups := map[string][]*lookup.Service{}
	for _, s := range list {
		var parts []string
		for name := range strings.SplitSeq(names, ",") {
			part, err := metaPart(name, s.ServiceMeta)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		}
		group := strings.Join(parts, "_")
		groups[group] = append(groups[group], s)
	}
	return groups, nil
}

// metaPart returns the value of one entry of a meta, as a part of the name of a group.
func metaPart(name string, meta map[string]string) (string, error) {
	name, isNumber := strings.CutSuffix(name, "|int")
	value := meta[name]
	if isNumber {
		if value == "" {
			value = "0"
		}

		n, err := strconv.Atoi(value)
		if err != nil {
			return "", structs.Invalidf("byMeta: the value of %s is not a whole number",
				structs.Cut(name, structs.MaxQuoted))
		}

		// Leading zeros let the names of groups sort as numbers.
		value = fmt.Sprintf("%05d", n)
	} else if value == "" {
		value = "_no_" + name + "_"
	}

	return strings.Map(func(c rune) rune {
		isWord := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if isWord || c == '_' || c == '-' {
			return c
		}
		return '_'
	}, value), nil
}

// explode returns the values of keys as a map of maps.
func explode(pairs []*lookup.KeyPair) (map[string]any, error) {
	flat := make(map[string]any, len(pairs))
	for _, pair := range pairs {
		flat[pair.Key] = pair.Value
	}
	// The prefix may itself be a key, which has no name below it.
	maps.DeleteFunc(flat, func(key string, _ any) bool { return key == "" })
	return explodeMap(flat)
}
