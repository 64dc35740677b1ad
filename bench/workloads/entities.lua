-- A game's world: entities are tables with nested tables, closures and strings; every step makes
-- and drops thousands of them. Prints one line that depends on every result.

local state = 12345
local function random(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % limit + 1
end

local kinds = { "tree", "stone", "wolf", "trader", "river", "house" }

local function entity(number)
  local new = {
    name = kinds[random(#kinds)] .. " " .. number,
    at = { x = random(1000), y = random(1000) },
    tags = {},
    bag = {},
  }
  for i = 1, random(6) do
    new.tags[i] = "tag" .. random(500)
  end
  local steps = 0
  new.step = function()
    steps = steps + 1
    new.at = { x = new.at.x + random(3) - 2, y = new.at.y + random(3) - 2 }
    return steps
  end
  return new
end

local world, log, total = {}, {}, 0
for number = 1, 12000 do
  world[number] = entity(number)
end

for turn = 1, 20 do
  local grid = {}
  for number, thing in ipairs(world) do
    total = total + thing.step()
    local cell = thing.at.x // 20 .. "," .. thing.at.y // 20
    grid[cell] = grid[cell] or {}
    table.insert(grid[cell], thing)
    thing.bag["item" .. random(40)] = { count = random(9), from = turn }
    if random(20) == 1 then
      world[number] = entity(number + turn * 100000)
    end
  end
  for cell, things in pairs(grid) do
    if #things > 8 then
      log[#log + 1] = #things .. " in " .. cell
    end
  end
end

table.sort(log)
local text = table.concat(log, "\n")
local sum = 0
for word in text:gmatch("%d+") do
  sum = (sum * 31 + tonumber(word)) % 1000000007
end
local bags = 0
for _, thing in ipairs(world) do
  for name, item in pairs(thing.bag) do
    bags = bags + #name * item.count
  end
end
print(#log, total, sum, bags)
