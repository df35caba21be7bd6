"""The expressions whose verdicts are recorded: hand-written ones for every function and error, and generated ones."""

from __future__ import annotations

import random
from typing import Final

from bench.cel.generator import typed
from bench.cel.names import A, C

WRITTEN: Final = rf'''
true
false
!true
!!true
device.driver == "gpu.example.com"
device.driver != "gpu.example.com"
device.driver.startsWith("gpu.") && device.driver.endsWith(".com")
device.driver.contains("example")
device.driver in ["a", "gpu.example.com"]
device.driver in []
device.allowMultipleAllocations
!device.allowMultipleAllocations
device.allowMultipleAllocations == false
device["driver"] == "x"
device.?driver.hasValue()
has(device.driver)
has(device.attributes)
device.noSuch
device.attributes
device.attributes["gpu.example.com"]
device.driver
device.capacity
1
"text"
1.5
null
[]
{{}}
b"x"
1u
int
device
unknown
unknown.field
unknown("x")
"x".unknown()
device.driver.unknown()
device.unknown()
{A}.model == "A100"
{A}["model"] == "A100"
{A}.model != "A100"
{A}.model == 1
{A}.model != 1
{A}.index == 3
{A}.index == 3.0
{A}.index == 3u
{A}.index == "3"
{A}.index != "3"
{A}.index > 2
{A}.index >= 3.5
{A}.index < 4u
{A}.index <= 2
{A}.index + 1 == 4
{A}.index - 1 == 2
{A}.index * 2 == 6
{A}.index / 2 == 1
{A}.index % 2 == 1
-{A}.index == -3
{A}.index / 0 == 1
{A}.index % 0 == 1
{A}.index + 9223372036854775807 > 0
{A}.index - 9223372036854775807 - 10 > 0
{A}.index * 9223372036854775807 > 0
{A}.model + "x" == "A100x"
{A}.model + 1 == 2
{A}.model > "A"
{A}.model < 1
{A}.ecc
!{A}.ecc
{A}.ecc == true
{A}.ecc && true
{A}.ecc || false
{A}.ecc ? true : false
{A}.model
{A}.index
{A}.driverVersion
{A}.numa
{A}.model && true
true && {A}.model
false && {A}.model
{A}.model || true
{A}.numa == 0
{A}.numa == 0 || true
true || {A}.numa == 0
{A}.numa == 0 && false
false && {A}.numa == 0
{A}.numa == 0 || {A}.numb == 1
{A}.numb == 0 && {A}.numa == 1
{A}.numa == 0 || false
{A}.numa == 0 && true
{A}.numa == 0 ? true : true
{A}.model ? true : false
has({A}.numa)
has({A}.ecc) && {A}.ecc
has({A}.ecc) ? !{A}.ecc : true
has({A}.model.size)
has({A}.numa.size)
has({A})
has({A}["model"])
has(device.attributes.foo)
has(device.capacity.foo)
"model" in {A}
"numa" in {A}
"gpu.example.com" in device.attributes
"unknown.example.com" in device.attributes
1 in {A}
size({A}) > 1
size(device.attributes) == 2
device.attributes.size() == 2
device.attributes["unknown.example.com"].size() == 0
device.attributes["unknown.example.com"].x == 1
device.attributes["unknown.example.com"] == {{}}
device.attributes.foo.bar == 1
device.attributes["a"]["b"]["c"] == 1
{A}.model.foo == "x"
{A}.model["foo"] == "x"
{A}.model[0] == "x"
device.attributes[1] == {{}}
device.attributes["a"].b.c.d == 1
{A}.?numa.hasValue()
{A}.?model.hasValue()
{A}[?"model"].hasValue()
{A}.?numa.orValue(1) == 1
{A}.?numa.orValue("none") == "none"
{A}.?numa.value() == 1
{A}.?model.value() == "A100"
{A}.?numa.or({A}.?index).value() == 3
{A}.?numa.or(optional.none()).hasValue()
{A}.?numa.or(optional.of(5)).orValue(4) == 5
{A}.?model.optMap(m, m == "A100").orValue(false)
{A}.?numa.optMap(m, m == 0).orValue(true)
{A}.?index.optFlatMap(i, i > 2 ? optional.of(true) : optional.none()).orValue(false)
{A}.?model.?foo.hasValue()
device.?attributes["gpu.example.com"].?model.orValue("") == "A100"
device.attributes[?"x"].hasValue()
device.attributes.?foo.hasValue()
device.attributes[?"gpu.example.com"].model.orValue("none") == "A100"
optional.of(1) == optional.of(1)
optional.of(1) == optional.none()
optional.none() == optional.none()
optional.none().value()
optional.none().orValue(true)
optional.ofNonZeroValue("").hasValue()
optional.ofNonZeroValue(0).hasValue()
optional.ofNonZeroValue("x").hasValue()
optional.of(true)
optional.unwrap([optional.of(1), optional.none()]) == [1]
[optional.of(1), optional.none()].unwrapOpt() == [1]
[1, 2].first().value() == 1
[1, 2].last().orValue(0) == 2
[].first().hasValue()
[?optional.none(), ?optional.of(1)] == [1]
[?1] == [1]
{{?"a": optional.none(), "b": 1}} == {{"b": 1}}
{{?"a": optional.of(2), "b": 1}}.size() == 2
{{?"a": 1}}.size() == 2
[1, 2, 3][?5].hasValue()
[1, 2, 3][?1].value() == 2
type(1) == int
type("x") == string
type({A}.index) == int
type({A}.model) == string
type({A}.driverVersion) == type(semver("1.0.0"))
type(1u) == uint && type(1.0) == double && type(true) == bool && type(b"") == bytes && type(null) == null_type
type([]) == list && type({{}}) == map && type(int) == type
type(duration("1s")) == google.protobuf.Duration
type(timestamp(0)) == google.protobuf.Timestamp
type(optional.none()) == optional_type
type(ip("1.2.3.4")) == net.IP
type(device) == map
int("3") <= {A}.index
int("x") == 1
int("x" + "y") == 1
int(3.9) == 3
int(-3.9) == -3
int(1e30) == 3
int(3u) == 3
int(18446744073709551615u) == 3
int(true) == 1
int("9223372036854775808") == 1
int(" 1") == 1
int("+1") == 1
int(duration("1s")) == 1000000000
int(timestamp("1970-01-01T00:00:05Z")) == 5
uint(3) == 3u
uint(-1) == 3u
uint("5") == 5u
uint("-5") == 5u
uint(2.5) == 2u
uint(-2.5) == 2u
double(1) == 1.0
double("1.5") == 1.5
double("inf") > 1.0
double("x") == 1.0
double("NaN") == double("NaN")
double("NaN") != double("NaN")
double("NaN") < 1.0
double(3u) == 3.0
string(1) == "1"
string(1u) == "1"
string(true) == "true"
string(1.5) == "1.5"
string(1000000.0) == "1e+06"
string(123456789.0) == "1.23456789e+08"
string(0.0001) == "0.0001"
string(0.00001) == "1e-05"
string(100000.0) == "100000"
string(b"abc") == "abc"
string(b"\xff") == "abc"
string(duration("1h30m")) == "5400s"
string(duration("1ms")) == "0.001s"
string(timestamp("2024-01-02T03:04:05.5Z")) == "2024-01-02T03:04:05.5Z"
string(timestamp("2024-01-02T03:04:05+02:00")) == "2024-01-02T03:04:05+02:00"
string({A}.index) == "3"
string({A}.model) == "A100"
string({A}.driverVersion) == "2.0.0"
string(ip("1.2.3.4")) == "1.2.3.4"
string(cidr("10.0.0.0/8")) == "10.0.0.0/8"
bool("true")
bool("1") && bool("t") && bool("TRUE")
bool("yes")
bool({A}.ecc)
bytes("abc") == b"abc"
dyn(1) == 1
dyn(1) == "x"
dyn("x") == {A}.model
dyn(true)
duration("1h") == duration("60m")
duration("1.5h") > duration("89m")
duration("x") == duration("1s")
duration({A}.model) == duration("1s")
duration("1h") + duration("30m") == duration("90m")
duration("1h") - duration("30m") == duration("30m")
-duration("1h") < duration("0s")
duration("3723s").getHours() == 1 && duration("3723s").getMinutes() == 62 && duration("3.5s").getMilliseconds() == 3500
duration("3723s").getSeconds() == 3723
duration(1) == duration("1s")
timestamp("2024-02-29T12:00:00Z").getFullYear() == 2024
timestamp("2024-02-29T12:00:00Z").getMonth() == 1
timestamp("2024-02-29T12:00:00Z").getDayOfMonth() == 28
timestamp("2024-02-29T12:00:00Z").getDate() == 29
timestamp("2024-02-29T12:00:00Z").getDayOfYear() == 59
timestamp("2024-02-29T12:00:00Z").getDayOfWeek() == 4
timestamp("2024-02-29T12:34:56.789Z").getHours() == 12 && timestamp("2024-02-29T12:34:56.789Z").getMinutes() == 34
timestamp("2024-02-29T12:34:56.789Z").getSeconds() == 56
timestamp("2024-02-29T12:34:56.789Z").getMilliseconds() == 789
timestamp("2024-02-29T12:00:00Z").getHours("-08:00") == 4
timestamp("2024-02-29T12:00:00Z").getHours("America/New_York") == 7
timestamp("2024-02-29T12:00:00Z").getHours("Nowhere/Land") == 7
timestamp("2023-02-29T12:00:00Z") == timestamp(0)
timestamp("2024-02-29T12:00:00Z") + duration("24h") == timestamp("2024-03-01T12:00:00Z")
timestamp("2024-03-01T12:00:00Z") - timestamp("2024-02-29T12:00:00Z") == duration("24h")
timestamp("2024-03-01T12:00:00Z") - duration("24h") == timestamp("2024-02-29T12:00:00Z")
timestamp(0) < timestamp(1)
timestamp(253402300800) == timestamp(0)
timestamp("9999-12-31T23:59:59Z") + duration("1s") == timestamp(0)
"abc".charAt(1) == "b"
"abc".charAt(3) == ""
"abc".charAt(4) == ""
"hello".indexOf("l") == 2 && "hello".indexOf("l", 3) == 3 && "hello".indexOf("z") == -1
"hello".indexOf("l", -1) == 2
"hello".lastIndexOf("l") == 3 && "hello".lastIndexOf("l", 2) == 2
"HeLLo".lowerAscii() == "hello" && "HeLLo".upperAscii() == "HELLO"
"hello".replace("l", "L") == "heLLo" && "hello".replace("l", "L", 1) == "heLlo"
"a,b,c".split(",") == ["a", "b", "c"] && "a,b,c".split(",", 2) == ["a", "b,c"]
"abc".split("") == ["a", "b", "c"] && "abc".split("", 2) == ["a", "bc"] && "a,b".split(",", 0) == []
"hello".substring(2) == "llo" && "hello".substring(1, 3) == "el"
"hello".substring(3, 1) == "x"
"hello".substring(9) == "x"
"  x ".trim() == "x"
["a", "b"].join() == "ab" && ["a", "b"].join("-") == "a-b"
[1, 2].join() == "12"
strings.quote("a\"b") == "\"a\\\"b\""
"%s-%d".format(["a", 1]) == "a-1"
"%s".format([true]) == "true"
"%s %s".format([[1, "a"], {{"k": 1}}]) == "[1, \"a\"] {{\"k\":1}}"
"%.2f".format([1.239]) == "1.24"
"%.2f".format([1234.5]) == "1,234.50"
"%e".format([1234.5]) == "1.234500 × 10⁰³"
"%x %X %o %b".format([255, 255, 8, 5]) == "ff FF 10 101"
"%x".format(["hi"]) == "6869"
"%d".format(["a"]) == "a"
"%s".format([]) == "a"
"%s".format(["a", "b"]) == "a"
"%z".format([1]) == "a"
"%".format([1]) == "a"
"100%%".format([]) == "100%"
"%s".format([{A}.model]) == "A100"
"%d".format([{A}.model]) == "A100"
"%s".format([{A}.driverVersion]) == "2.0.0"
"abc".reverse() == "cba"
size("héllo") == 5 && "héllo".size() == 5 && size(b"héllo") == 6
size({A}.model) == 4
{A}.model.size() == 4
size({A}.index) == 4
size({A}.driverVersion) == 4
{A}.model.startsWith("A")
{A}.model.startsWith(1)
{A}.index.startsWith("A")
{A}.model.contains("10")
{A}.index.contains("10")
{A}.model.substring(1) == "100"
{A}.index.substring(1) == "100"
{A}.model.lowerAscii() == "a100"
{A}.model.split("1")[0] == "A"
{A}.model.matches("^[AH][0-9]+$")
{A}.model.matches("[")
{A}.model.matches("(?i)a1")
{A}.index.matches("1")
matches({A}.model, "A.*")
matches("[", "A.*")
{A}.model.matches({A}.model)
{A}.model.matches("\\C")
{A}.model.matches("(?P<x>A)1\\d+")
{A}.model.matches("A{{1001}}")
{A}.model.matches("(?<=A)1")
"abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]+") == ""
"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1b22".findAll("[0-9]+", 1) == ["1"]
"aaa".findAll("a*") == ["aaa"]
"abc".findAll("") == ["", "", "", ""]
"abc".find("[") == ""
"abc".find("[" + "") == ""
{A}.model.find("[0-9]+") == "100"
[1, 2, 3].all(x, x > 0)
[1, 2, 3].exists(x, x > 2)
[1, 2, 3].exists_one(x, x > 2)
[1, 2, 3].existsOne(x, x > 1)
[1, 2, 3].map(x, x * 2) == [2, 4, 6]
[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]
[1, 2, 3].filter(x, x > 1) == [2, 3]
[1, 0].all(x, 1 / x > 0)
[0, 1].all(x, 1 / x > 1)
[0, 1].exists(x, 1 / x == 1)
[0, 2].exists(x, 1 / x == 1)
[0, 1].exists_one(x, 1 / x == 1)
[1, 2].map(x, x / 0) == [1]
[[1, 2], [3]].all(l, l.all(x, x > 0))
{{"a": 1, "b": 2}}.all(k, k in ["a", "b"])
{{"a": 1, "b": 2}}.exists(k, k == "c")
{{"a": 1}}.map(k, k) == ["a"]
{A}.exists(k, k == "model")
{A}.all(k, k.size() < 20)
{A}.filter(k, k.startsWith("m")) == ["model"]
{A}.exists(k, v, k == "model" && v == "A100")
{A}.all(k, v, v != 7)
{A}.transformList(k, v, k).size() > 2
{A}.transformMap(k, v, k == "model", v)["model"] == "A100"
{A}.transformMapEntry(k, v, k == "model", {{v: k}})["A100"] == "model"
device.attributes.exists(d, device.attributes[d].size() > 1)
device.attributes.all(d, attrs, attrs.size() > 0)
{C}.all(k, v, v.isGreaterThan(quantity("1")))
[1, 2, 3].all(i, v, v > i)
[1, 2, 3].exists(i, v, v == 3 && i == 2)
[1, 2, 3].existsOne(i, v, v == 3 && i == 2)
[1, 2].transformList(i, v, v * i) == [0, 2]
[1, 2].transformList(i, v, i > 0, v) == [2]
[1, 2].transformMap(i, v, v * 2) == {{0: 2, 1: 4}}
[1, 1].transformMapEntry(i, v, {{v: i}}).size() == 1
[1, 2].all(x, x, true)
[1].all(1, true)
[1].map(__result__, true)
[1].all(x.y, true)
{A}.model.all(x, true)
{A}.index.exists(x, x > 0)
"abc".all(x, true)
[1, 2, 3] == [1, 2, 3]
[1, 2] + [3] == [1, 2, 3]
[1, "a"] == [1, "a"]
[1, 2.0] == [1, 2]
[{A}.model, "a"] == ["a"]
[{A}.model, {A}.index].size() == 2
[1, dyn(2)].size() == 2
{{"a": 1, "b": "c"}}.size() == 2
{{"a": 1, 2: 3}}.size() == 2
[1, 2, 3][0] == 1
[1, 2, 3][3] == 1
[1, 2, 3][-1] == 1
[1, 2, 3][{A}.index] == 1
[1, 2, 3, 4][{A}.index] == 4
{{"a": 1}}["a"] == 1
{{"a": 1}}["b"] == 1
{{"a": 1}}.a == 1
{{"A100": true}}[{A}.model]
{{1: true}}[1]
{{1: true}}[1u]
{{true: 1}}[true] == 1
{{"a": 1}} == {{"a": 1}}
{{"a": 1}} == {{"a": 2}}
{{"a": 1, "a": 2}}.size() == 1
2 in [1, 2]
2 in [1.0, 2.0]
{A}.index in [1, 2, 3]
{A}.index in [1.5, 3.0]
{A}.model in ["A100", "H100"]
{A}.model in "A100"
{A}.driverVersion in ["a"]
"a" in {{"a": 1}}
3 in {{3: 1}}
[1, 2, 2].sum() == 5
[1.5, 2.0].sum() == 3.5
["a"].sum() == "a"
[duration("1s"), duration("2s")].sum() == duration("3s")
[3, 1, 2].max() == 3 && [3, 1, 2].min() == 1
["b", "a"].max() == "b"
[].max() == 1
[1, 2].isSorted() && !["b", "a"].isSorted()
[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1
[1, 2, 3, 4].slice(1, 3) == [2, 3]
[1, 2].slice(1, 3) == [2]
[1, 2].slice(-1, 1) == [2]
[1, 2].slice(2, 1) == [2]
[[1], [2, [3]]].flatten() == [1, 2, [3]]
[[1], [2]].flatten() == [1, 2]
[1, [2, [3, 4]]].flatten(2) == [1, 2, 3, 4]
[[1], [2]].flatten(-1) == [1, 2]
[3, 1, 2].sort() == [1, 2, 3]
["b", "a"].sort() == ["a", "b"]
["bb", "a"].sortBy(x, x.size()) == ["a", "bb"]
[1, 2].sortBy(x, -x) == [2, 1]
lists.range(3) == [0, 1, 2]
lists.range(1000000).size() == 1
lists.range({A}.index).size() == 3
[1, 2, 3].reverse() == [3, 2, 1]
[1, 1, 2].distinct() == [1, 2]
sets.contains([1, 2, 3], [1, 2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1, 1])
sets.contains([1], ["a"])
cel.bind(d, {A}, d.ecc && d.index > 2)
cel.bind(d, {A}.numa, true)
cel.bind(d, {A}.numa, d == 1)
cel.bind(d, {A}.numa, d == 1 || true)
cel.bind(a, 1, cel.bind(b, a + 1, b == 2))
cel.bind(device, 1, device == 1)
cel.bind(1, 2, true)
cel.bind(a, 1)
cel.bond(a, 1, true)
other.bind(a, 1, true)
{C}.memory == quantity("40Gi")
{C}.memory == quantity("40960Mi")
{C}.memory != quantity("40Gi")
{C}.memory == 1
{C}["memory"].compareTo(quantity("30Gi")) > 0
{C}.memory.compareTo(quantity("40Gi")) == -1
{C}.memory.isGreaterThan(quantity("39Gi"))
{C}.memory.isLessThan(quantity("50G"))
{C}.memory.isGreaterThan("39Gi")
{C}.memory.sub(quantity("10Gi")).isGreaterThan(quantity("20Gi"))
{C}.memory.add(quantity("1Gi")) == quantity("41Gi")
{C}.memory.add(5).asInteger() == 42949672965
{C}.memory.sub(5).asInteger() == 42949672955
{C}.memory.asApproximateFloat() > 4.0e10
{C}.memory.asInteger() == 42949672960
{C}.memory.isInteger()
{C}.memory > quantity("1Gi")
{C}.nothing.isGreaterThan(quantity("1"))
{C}.?nothing.hasValue()
{C}.?memory.orValue(quantity("0")) == quantity("40Gi")
device.capacity["nothing"].memory == quantity("1")
sign({C}.memory) == 1
{C}.memory.sign() == 1
quantity("1.5").isInteger()
quantity("1500m").isInteger()
quantity("2000m").asInteger() == 2
quantity("1k").asInteger() == 1000
quantity("1.5").asInteger() == 1
quantity("0.1").asApproximateFloat() == 0.1
quantity("1e3") == quantity("1k")
quantity("1E3") == quantity("1000")
quantity("10Ei") == quantity("9223372036854775807")
quantity("-1") < quantity("1")
quantity("-1").isLessThan(quantity("1")) && sign(quantity("-1")) == -1 && sign(quantity("0")) == 0
quantity("abc") == quantity("1")
quantity("1KI") == quantity("1")
quantity(" 1") == quantity("1")
quantity("") == quantity("1")
quantity("1.2.3") == quantity("1")
isQuantity("1Gi") && !isQuantity("1Gx") && !isQuantity("")
quantity({A}.model) == quantity("1")
quantity({A}.index) == quantity("1")
{A}.driverVersion == semver("2.0.0")
{A}.driverVersion == "2.0.0"
{A}.driverVersion != "2.0.0"
{A}.driverVersion.isGreaterThan(semver("1.9.0"))
{A}.driverVersion.isLessThan(semver("10.0.0"))
{A}.driverVersion.compareTo(semver("2.0.0-rc.1")) == 1
{A}.driverVersion.major() == 2 && {A}.driverVersion.minor() == 0 && {A}.driverVersion.patch() == 0
{A}.model.isGreaterThan(semver("1.9.0"))
{A}.model.major() == 2
{A}.driverVersion.isGreaterThan(quantity("1"))
{A}.driverVersion > semver("1.0.0")
semver("1.0.0-alpha").isLessThan(semver("1.0.0-alpha.1")) && semver("1.0.0-2").isLessThan(semver("1.0.0-10"))
semver("1.0.0+a") == semver("1.0.0+b")
semver("1.0") == semver("1.0.0")
semver("v1.0.0") == semver("1.0.0")
semver("v1", true) == semver("1.0.0")
semver("v01.02", true) == semver("1.2.0")
semver("1.2-rc", true) == semver("1.2.0")
semver("01.0.0") == semver("1.0.0")
semver("1.0.0-01") == semver("1.0.0")
semver("1.x.0") == semver("1.0.0")
semver("1.0.0-") == semver("1.0.0")
semver("1.0.0+") == semver("1.0.0")
semver("") == semver("1.0.0")
semver("99999999999999999999.0.0") == semver("1.0.0")
isSemver("1.0.0") && !isSemver("1.0") && isSemver("1.0", true)
semver({A}.model).major() == 1
ip("192.168.0.1").family() == 4 && ip("::1").family() == 6
ip("192.168.0.1") == ip("192.168.0.1")
ip("192.168.0.1") == "192.168.0.1"
ip("x").family() == 4
ip("1.2.3").family() == 4
ip("1.2.3.256").family() == 4
ip("01.2.3.4").family() == 4
ip("::ffff:1.2.3.4").family() == 4
ip("fe80::1%eth0").family() == 4
isIP("1.2.3.4") && !isIP("x") && !isIP("::ffff:1.2.3.4")
ip.isCanonical("::1") && !ip.isCanonical("0:0::1")
ip("0.0.0.0").isUnspecified() && ip("127.0.0.1").isLoopback() && ip("224.0.0.1").isLinkLocalMulticast()
ip("169.254.1.1").isLinkLocalUnicast() && ip("8.8.8.8").isGlobalUnicast() && ip("10.0.0.1").isGlobalUnicast()
ip("ff02::1").isLinkLocalMulticast() && ip("fe80::1").isLinkLocalUnicast() && !ip("::1").isGlobalUnicast()
cidr("10.0.0.0/8").containsIP("10.1.2.3") && cidr("10.0.0.0/8").containsIP(ip("10.1.2.3"))
cidr("10.0.0.0/8").containsIP("x")
cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.0.0.0/8").containsCIDR(cidr("0.0.0.0/0"))
cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8").prefixLength() == 8
cidr("10.1.2.3/8").ip() == ip("10.1.2.3")
cidr("10.1.2.3/33").prefixLength() == 8
cidr("10.1.2.3").prefixLength() == 8
cidr("10.1.2.3/a").prefixLength() == 8
isCIDR("10.0.0.0/8") && !isCIDR("10.0.0.0") && !isCIDR("::ffff:1.2.3.4/100")
url("https://example.com:80/a/b?x=1&y=2#f").getHost() == "example.com:80"
url("https://example.com:80/a").getHostname() == "example.com" && url("https://example.com:80/a").getPort() == "80"
url("https://example.com/a%20b").getEscapedPath() == "/a%20b" && url("https://example.com/").getScheme() == "https"
url("https://example.com/?x=1&x=2").getQuery() == {{"x": ["1", "2"]}}
url("https://[::1]:80/").getHostname() == "::1"
url("x") == url("y")
url("") == url("y")
isURL("https://example.com") && isURL("/path") && !isURL("path")
format.dns1123Label().validate("my-label").hasValue()
format.dns1123Label().validate("My_label").hasValue()
!format.dns1123Subdomain().validate("a.b").hasValue() && !format.labelValue().validate("a").hasValue()
format.qualifiedName().validate("a/b/c").hasValue() && !format.qualifiedName().validate("a/b").hasValue()
!format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue() && format.uuid().validate("x").hasValue()
!format.byte().validate("aGk=").hasValue() && format.date().validate("2024-13-01").hasValue()
!format.date().validate("2024-12-01").hasValue() && !format.datetime().validate("2024-12-01T00:00:00Z").hasValue()
format.uri().validate("x").hasValue() && !format.uri().validate("https://a").hasValue()
format.named("dns1123Label").hasValue() && !format.named("x").hasValue()
format.named("uuid").value() == format.uuid()
format.dns1035Label().validate("1a").hasValue() && !format.dns1123LabelPrefix().validate("a-").hasValue()
format.nothing().validate("x").hasValue()
authorizer.path("/x").check("get").allowed()
"x".check("get").allowed()
1 + 1 == 2 && 2 - 1 == 1 && 2 * 3 == 6 && 7 / 2 == 3 && 7 % 3 == 1
-7 / 2 == -3 && -7 % 3 == -1 && 7 / -2 == -3
1u + 2u == 3u && 3u / 2u == 1u && 3u % 2u == 1u
1u - 2u == 3u
1.5 + 1.5 == 3.0 && 3.0 / 2.0 == 1.5 && 1.0 / 0.0 > 1.0
1 + 1.0 == 2.0
1 + 1u == 2
1 == 1.0
dyn(1) == 1.0 && dyn(1u) == 1
1 < 1.5 && 2u > 1 && 1.5 < 2u
9223372036854775807 + 1 > 0
-9223372036854775808 < 0
9223372036854775808 > 0
-(-9223372036854775808) > 0
0x7fffffffffffffff == 9223372036854775807
0xFFu == 255u
18446744073709551615u > 0u
18446744073709551616u > 0u
1e400 > 1.0
.5 == 0.5
1. == 1.0
"a" < "b" && b"a" < b"b" && false < true
"a" + "b" == "ab" && b"a" + b"b" == b"ab"
"a" == 'a' && """a""" == "a" && \'\'\'a\'\'\' == "a" && r"\n" == "\\n"
"\u00e9" == "é" && "\x41" == "A" && "\101" == "A" && "\U0001F600" == "😀"
"\ud800" == "x"
"\q" == "x"
b"\xff" == b"\377"
true ? true : false
true ? 1 : 2
true ? 1 : "a"
true ? {A}.ecc : false
{A}.ecc ? {A}.model : {A}.index
(true ? {A} : {A}).ecc
true && 1
true && "x" == 1
!1
-"a" == "b"
!{A}.model
-{A}.model == 1
-{A}.ecc == 1
null == null
null == 1
{A}.model == null
{A}.model != null
optional.of(1) == null
quantity("1") == null
duration("1s") == null
kubernetes.DRADevice
kubernetes.Quantity
google.protobuf.Timestamp == google.protobuf.Timestamp
.device.driver == "x"
.size("a") == 1
device . driver == "x"
device.driver == "x" // comment
device.driver /* comment */ == "x"
package.x == 1
as == 1
namespace
device.namespace
{A}.in == 1
{A}.package == 1
{A}.`model` == "A100"
{A}.true == 1

(
)
()
(true
true)
[1, 2
[1, 2,] == [1, 2]
[,] == []
{{"a": 1,}}.size() == 1
{{,}} == {{}}
[1,,2] == []
f(
device.
device..driver
device.driver ==
== device.driver
device.driver = "x"
device.driver === "x"
device.driver & true
true &
true and true
"unterminated
'a" == 1
@x
#x
$x
a b
1 2
true true
x ? y
x ? y :
? true
{{"a"}}
{{"a": }}
[1 2]
has()
has(a, b)
has(1)
has(x)
size()
size(1)
size("a", "b")
"a".size("b")
timestamp()
semver()
quantity("1", "2") == quantity("1")
{A}.model.matches()
cel.bind(x, [1, 2, 3], x.map(y, x.map(z, y * z))).size() == 3
lists.range(100).all(x, lists.range(100).all(y, x + y >= 0))
lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))
lists.range(300).all(x, lists.range(300).all(y, x + y >= 0))
{A}.all(a, {A}.all(b, {A}.all(c, a != "x")))
{A}.all(a, {A}.all(b, {A}.all(c, {A}.all(d, a != "x"))))
device.attributes.all(a, device.attributes[a].all(b, a + b != "x"))
device.attributes.all(a, device.attributes[a].all(b, device.attributes.all(c, device.attributes[c].all(d, a != d))))
{A}.model.matches("{"a" * 100}")
{A}.model.split("").all(x, {A}.model.split("").all(y, {A}.model.split("").all(z, x + y + z != "")))
{A}.model.split("").all(x, {A}.model.split("").all(y, x + y != ""))
{A}.model.replace("", "xxxxxxxxxx").replace("", "xxxxxxxxxx").replace("", "xxxxxxxxxx").contains("a")
{A}.map(k, {A}[k]).exists(v, v == 3)
{A}.map(k, k).map(k, k + k).exists(v, v.matches("x+"))
[{A}.model].exists(x, x.matches({A}.model))
{A}.model.findAll("[0-9]").all(x, x.matches("1*0*"))
{A}.filter(k, k.startsWith("m")).map(k, {A}[k]).sort().size() == 1
{A}.map(k, k).sort()[0] == "driverVersion"
{A}.map(k, k).distinct().size() > 1
{A}.map(k, k).join(",").split(",").size() > 1
{A}.map(k, k).flatten().size() == 1
{A}.map(k, [k]).flatten().size() > 1
{A}.map(k, k).slice(0, 1).size() == 1
{A}.map(k, k).reverse().size() > 1
{A}.map(k, k).isSorted() || true
{A}.map(k, k.size()).sum() > 10
{A}.map(k, k).sortBy(k, k.size())[0] == "ecc"
{A}.map(k, k).max() == "model"
sets.contains({A}.map(k, k), ["model"])
sets.intersects({A}.map(k, k), {A}.map(k, k))
{A}.transformMap(k, v, {A}.transformMap(k2, v2, v == v2)).size() > 1
string(lists.range(10000).map(x, "xxxxxxxxxx")).size() == 1
lists.range(10000).map(x, "xxxxxxxxxx").join().size() == 100000
lists.range(30000).map(x, x).size() == 30000
lists.range(100000).map(x, x).size() == 1
lists.range(100).flatten(99999)  == [1]
"%s".format([lists.range(1000)]).size() > 0
bytes({A}.model).size() == 4
string(bytes({A}.model)) == "A100"
strings.quote({A}.model) == "\"A100\""
{A}.model.upperAscii().lowerAscii().trim().substring(1).charAt(0) == "1"
{A}.model.indexOf("1") == 1
{A}.model.lastIndexOf("0") == 3
{A}.index.indexOf(1) == 3
isIP({A}.model) || isCIDR({A}.model) || isURL({A}.model) || isSemver({A}.model) || isQuantity({A}.model)
url({A}.model) == url({A}.model)
ip({A}.model) == ip("1.2.3.4")
cidr({A}.model).containsCIDR(cidr({A}.model))
format.dns1123Label().validate({A}.model).hasValue()
format.named({A}.model).hasValue()
url("https://a/" + {A}.model) == url("https://a/A100")
{A}.driverVersion.isGreaterThan({A}.driverVersion)
{A}.index.sum() == 1
{A}.index.max() == 1
{A}.model.join() == ""
{A}.model.sort() == [1]
{A}.model.distinct() == [1]
{A}.model.reverse() == [1]
{A}.model.first().hasValue()
{A}.model.hasValue()
{A}.model.value() == 1
{A}.model.orValue(1) == 1
{A}.model.family() == 4
{A}.model.getHours() == 4
{A}.model.getHost() == "x"
{A}.model.validate("x").hasValue()
{A}.ecc.isInteger()
{A}.index.add(1) == quantity("1")
[1, {A}.numa].distinct().size() == 2
[1, {A}.numb].distinct().size() == 2 || true
[{A}.numb].sort() == [1]
["a", "b" + {A}.model].sort()[0] == "a"
["a", string({A}.index / 0)].sort()[0] == "a"
[string({A}.index / 0)].sortBy(x, x.size()).size() == 1
[1, 2].sortBy(x, x / 0).size() == 1
[string({A}.index / 0)].reverse().size() == 1
[string({A}.index / 0)].slice(0, 1).size() == 1
[[1 / 0]].flatten().size() == 1
[[1], [2]].flatten(1 / 0).size() == 1
lists.range(1 / 0).size() == 1
sets.contains([1 / 0], [1])
{A}.driverVersion in ["a"] || true
false && {A}.driverVersion in ["a"]
{A}.driverVersion in [semver("2.0.0")]
{C}.memory in [quantity("40Gi")]
{A}.model in [["A100"]]
{A}.model in [b"x"]
{A}.model in [{A}.model]
{A}.model in [string({A}.index), "A100"]
{A}.ecc in [true]
{A}.index in [true]
{A}.index in [3u]
{A}.numa in [0.0, 1.0]
{A}.index in [dyn(3)]
[{A}.driverVersion] == [{A}.model]
[{A}.driverVersion] == [semver("2.0.0")]
{{"a": {A}.driverVersion}} == {{"a": {A}.model}}
[{A}.driverVersion].indexOf("a") == -1
{A}.driverVersion == {A}.model
{A}.model == {A}.driverVersion
{A}.model != {A}.driverVersion
{A} == {A}
{A} != {A}
device == device
{C}.memory == {A}.model
{A}.model == {C}.memory
{A}.?driverVersion == optional.of({A}.model)
{A}.?model == optional.of("A100")
{A}.model.find({A}.model) == {A}.model
{A}.model.findAll("[0-9]", 2) == ["1", "0"]
"abab".findAll("b*") == ["", "b", "", "b"]
"日本語".findAll("") == ["", "", "", ""]
"日本語".substring(1, 2) == "本" && "日本語".indexOf("語") == 2 && "日本語".charAt(0) == "日"
"日本語" > "abc" && "Z" < "a" && "😀" > "￿"
cel.bind(x, {A}.numb, [1, 2].exists(y, y == 1 || x == 2))
cel.bind(x, {A}.numb, [1, 2].all(y, y == 3 && x == 2))
cel.bind(x, {A}, has(x.model) && x.model == "A100")
cel.bind(x, device.attributes, x["gpu.example.com"].model == "A100")
cel.bind(x, device, x.driver == "gpu.example.com")
[1, 2, 3].map(x, x).filter(x, x > 1).exists(x, x == 3)
[[1, 2], [3]].map(l, l.map(x, x + 1)) == [[2, 3], [4]]
[1, 2].map(x, [3, 4].map(y, x * y)).flatten() == [3, 4, 6, 8]
[1, 2, 0].filter(x, 1 / x >= 0).size() == 3
[0, 1].map(x, x > 0, 1 / x) == [1]
[0, 1].filter(x, x > 0 && 1 / x > 0) == [1]
{{"b": 1, "a": 2}}.map(k, k).sort() == ["a", "b"]
{{1: "a", 2u: "b"}}.size() == 2
{{1: "a"}}[1.0] == "a"
{{1.5: "a"}}[1.5] == "a"
{{null: 1}}.size() == 1
{{[1]: 1}}.size() == 1
{{b"a": 1}}.size() == 1
{{b"a": {A}.index}}.size() == 1
{{{A}.driverVersion: 1}}.size() == 1
{{1.0: true}}[1]
{{1: true}}[1.0]
{{}}[duration("1s")] == 1
optional.none()[{A}.numb].hasValue()
isURL("a:b") && url("a:b").getHost() == ""
[{A}.index, {A}.model].min() == 3
[{A}.index, {A}.model].isSorted()
duration
timestamp == type(timestamp(0))
type(1) == "int"
{{"a": 1}}[?"b"].orValue(5) == 5
{{"a": {{"b": 1}}}}.?a.?b.orValue(2) == 1
{{"a": {{"b": 1}}}}.?a.b.orValue(2) == 1
{{"a": {{"b": 1}}}}.?x.b.orValue(2) == 2
{{"a": {{"b": 1}}}}.a.?x.orValue(2) == 2
{{"a": 1}}.transformMap(k, v, v + 1) == {{"a": 2}}
{{"a": 1, "b": 2}}.transformMapEntry(k, v, {{"c": v}}).size() == 1
{{"a": 1, "b": 2}}.transformMapEntry(k, v, v > 1, {{"c": v}}) == {{"c": 2}}
{{"a": 1, "b": 2}}.transformList(k, v, v > 1, k) == ["b"]
{{"a": 1, "b": 2}}.existsOne(k, v, v > 1)
{{"a": 1, "b": 2}}.exists_one(k, v, v / 0 > 1)
{{"a": 1}}.all(k, v, v / 0 > 1 && false)
[1, 2][{A}.numa]
[true, false][{A}.numa]
[true, false][{A}.index]
[true, false][0.0] && [true, false][0u]
[true][1.5]
[true]["a"]
{{"a": true}}[{A}.index]
type({A}.ecc) == bool ? {A}.ecc : false
type({A}.index) == int && {A}.index > 1
size({A}.?model.orValue("")) > 3
{A}.?numa.orValue({A}.index) == 3
{A}.?numa.optMap(x, x + 1).orValue({A}.index / 0) == 1
{A}.?index.optMap(x, x + 1).orValue({A}.index / 0) == 4
{A}.?index.optMap(x, x / 0).hasValue()
{A}.?model.or({A}.?index.optMap(x, x / 0)).hasValue()
optional.of({A}.numb).hasValue()
optional.of(optional.of(1)).value().value() == 1
has({A}.model) == true ? "x" == "x" : false
"%s".format([{A}.ecc]) == "true"
"%s %d %.1f".format([{A}.model, {A}.index, 1.25]) == "A100 3 1.2"
"%b %o %x".format([{A}.index, {A}.index, {A}.model]) == "11 3 41313030"
"%f".format([1.0]) == "1.000000" && "%e".format([0.00012]) == "1.200000 × 10⁻⁰⁴"
"%s".format([1.0]) == "1" && "%s".format([null]) == "null" && "%s".format([int]) == "int"
"%s".format([[1.5, 2.0]]) == "[1.500000, 2.000000]"
"%s".format([[b"a", duration("1s"), timestamp(0)]]) == "x"
"%s".format([duration("1s")]) == "1s" && "%s".format([timestamp(0)]) == "1970-01-01T00:00:00Z"
"%s".format([{{1: 2, 3: 4}}]) == "{{1:2, 3:4}}"
"%s".format([quantity("1")]) == "1"
"%x".format([b"ÿ"]) == "ff" && "%X".format(["hi"]) == "6869" && "%x".format([-5]) == "-5"
"%.99999999999f".format([1.0]) == "x"
"%.f".format([1.0]) == "x"
"%f".format(["NaN"]) == "NaN" && "%f".format([double("inf")]) == "∞"
'''.replace("\\'\\'\\'", "'''")


def written() -> list[str]:
    """Return the hand-written expressions, one for each line."""
    return [line for line in WRITTEN.split("\n")[1:-1] if line not in ("{{",)]


_INTS: Final = (f"{A}.index", "3", "0", "-1", "size(device.driver)", f"size({A}.model)", f"{A}.?numa.orValue(2)")
_STRINGS: Final = (f"{A}.model", "device.driver", '"A100"', '""', f"string({A}.index)", f'{A}.?kind.orValue("x")')
_QUANTITIES: Final = (f"{C}.memory", 'quantity("40Gi")', 'quantity("0")', f'{C}.memory.sub(quantity("1Gi"))')
_VERSIONS: Final = (f"{A}.driverVersion", 'semver("2.0.0")', 'semver("1.9.9-rc.1")')
_ORDERS: Final = ("==", "!=", "<", "<=", ">", ">=")
_COMPARISONS: Final = ("compareTo({}) == 0", "isGreaterThan({})", "isLessThan({})", "compareTo({}) < 1")


class Generator:
    """Makes up random expressions whose result is a bool, most of which compile."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def _one(self, choices: tuple[str, ...]) -> str:
        return self._random.choice(choices)

    def _int(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.4:
            return self._one(_INTS)
        left, right = self._int(depth - 1), self._int(depth - 1)
        return f"({left} {self._one(('+', '-', '*', '/', '%'))} {right})"

    def _string(self, depth: int) -> str:
        kind = self._random.randrange(6)
        if depth <= 0 or kind < 3:
            return self._one(_STRINGS)
        inner = self._string(depth - 1)
        if kind == 3:
            return f"({inner} + {self._string(depth - 1)})"
        return f"{inner}.{self._one(('lowerAscii()', 'trim()', 'substring(1)', 'replace(chr, other)'))}".replace(
            "chr, other", '"1", "22"'
        )

    def expression(self, depth: int = 3) -> str:
        """Return a random expression with about `depth` nested operators."""
        if depth <= 0:
            return self._leaf(1)
        kind = self._random.randrange(9)
        if kind < 2:
            return f"({self.expression(depth - 1)} && {self.expression(depth - 1)})"
        if kind < 4:
            return f"({self.expression(depth - 1)} || {self.expression(depth - 1)})"
        if kind == 4:
            return f"!({self.expression(depth - 1)})"
        if kind == 5:
            parts = (self.expression(depth - 2), self.expression(depth - 2), self.expression(depth - 2))
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        if kind == 6:
            macro = self._one(("all", "exists", "exists_one"))
            return f"[{self._int(1)}, {self._int(1)}].{macro}(x, x {self._one(_ORDERS)} {self._int(1)})"
        return self._leaf(depth)

    def _leaf(self, depth: int) -> str:
        kind = self._random.randrange(10)
        if kind < 3:
            return f"{self._int(depth)} {self._one(_ORDERS)} {self._int(depth)}"
        if kind < 5:
            return f"{self._string(depth)} {self._one(_ORDERS)} {self._string(depth)}"
        if kind == 5:
            return f"{self._one(_QUANTITIES)}.{self._one(_COMPARISONS).format(self._one(_QUANTITIES))}"
        if kind == 6:
            return f"{self._one(_VERSIONS)}.{self._one(_COMPARISONS).format(self._one(_VERSIONS))}"
        if kind == 7:
            return self._one((f"has({A}.numa)", f"has({A}.ecc)", f'"model" in {A}', f"{A}.ecc", f"{A}.numa == 0"))
        if kind == 8:
            return f"{self._string(1)} in [{self._string(1)}, {self._string(1)}]"
        # operands of any two types: often an error
        return f"{self._one(_INTS + _STRINGS + _QUANTITIES)} {self._one(_ORDERS)} {self._one(_STRINGS + _VERSIONS)}"


def generated(count: int = 150, seed: int = 1) -> list[str]:
    """Return random expressions without duplicates."""
    generator = Generator(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[generator.expression()] = None
    return list(found)


def nested() -> list[str]:
    """Return expressions around the limits of depth, length and cost."""
    found = []
    for depth in (50, 124, 125, 200, 248, 249, 250, 251):
        found += [
            "(" * depth + "true" + ")" * depth,
            "[" * depth + "]" * depth + " == []",
            " + ".join(["1"] * depth) + " > 0",
            " < ".join(["1"] * depth),
            "!" * depth + "true",
            "-" * depth + "1 == 1",
            "dyn({})" + ".a" * depth + " == 1",
            " && ".join(["true"] * depth),
            "true ? true : " * depth + "true",
            "[1]" + "[0]" * depth + " == 1",
            "size(" * depth + '"a"' + ")" * depth + " == 1",
        ]
    for size in (10_234, 10_235):
        found.append(f'"{"a" * size}" != ""')
    for count in (1000, 2000, 5000):
        found.append("[" + ", ".join(["1"] * count) + "].size() > 0")
    for pattern in (14, 15, 16, 560, 570, 600):
        found.append(f'{A}.map(k, {A}[k]).exists(v, v.matches("{"a" * pattern}"))')
        found.append(f"lists.range({pattern * 20}).all(x, lists.range({pattern}).exists(y, x != y))")
    return found


def all_expressions() -> list[str]:
    """Return every expression whose verdict is recorded."""
    return list(dict.fromkeys([*written(), *generated(), *typed(300, seed=1), *nested()]))
