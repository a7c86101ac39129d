"""Answers of the API as they look when nothing is wrong with them."""

import json


def listing(number=9966395, **changes):
    attributes = {
        "agent_coords_0_coord": -25.7,
        "agent_coords_1_coord": 28,
        "agent_featured": "0",
        "agent_locality": None,
        "agent_name": "Some Dealer",
        "code": "pJyZp5uopZ0=",
        "colour": "White",
        "description": "One owner. " * 60,
        "fuel_type": "Petrol",
        "image": {
            "version": 2776432509,
            "count": 12,
            "path": "carsimages",
            "name": "9850185",
            "extension": ".jpg",
        },
        "make": "Audi",
        "mileage": "38 329 Km",
        "model": "A4",
        "monthly_price": 5599.5,
        "new_or_used": "Used",
        "price": 289900,
        "province": "Gauteng",
        "seats": "5",
        "seller_type": "Dealer",
        "seller_types": ["Dealer"],
        "title": "2017 Audi A4 1.4 TFSI Sport Auto",
        "transmission": "Automatic",
        "variant": "1.4 TFSI Sport Auto",
        "website_url": f"https://www.cars.co.za/for-sale/used/2017-Audi-A4/{number}/",
        "year": 2017,
    }
    attributes.update(changes)
    return {"type": "vehicle", "id": str(number), "attributes": attributes}


def page(*listings, total=71290):
    return {
        "meta": {"total": total, "totalPages": total // 20, "currentPage": 0},
        "links": {
            "self": "https://h/v3/vehicle?page%5Boffset%5D=0",
            "next": "https://h/v3/vehicle?page%5Boffset%5D=20",
        },
        "data": list(listings),
    }


def specs():
    return {
        "data": [
            [
                {"title": "Summary", "attrs": [{"label": "Seats quantity", "value": "5"}]},
                {"title": None, "attrs": [{"label": "0-100Kph", "value": "8.5 s"}]},
                {"title": "Empty", "attrs": []},
            ]
        ]
    }


def body(value):
    return json.dumps(value).encode()
